package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// settings are the parameters of a run.
type settings struct {
	scheme     string
	losses     int // that the scheme tolerates if there are nodes enough
	setSize    int
	cacheSize  int
	bypass     bool
	fetchHere  bool // SCR_FETCH_BYPASS
	flush      int
	async      bool
	compress   bool
	prefixSize int
	piece      int
}

// inPlace reports whether a run reads checkpoints where they are in the prefix directory.
func (s settings) inPlace() bool { return s.fetchHere || s.direct() }

// direct reports whether a run writes datasets to the prefix directory itself.
func (s settings) direct() bool { return s.bypass || s.cacheSize == 0 }

// drawSettings draws settings.
func drawSettings(random *rand.Rand) settings {
	one := func(of ...int) int { return of[random.IntN(len(of))] }
	s := settings{
		setSize: one(2, 3, 4, 8), cacheSize: one(0, 1, 2, 2, 2, 3, 3), bypass: random.IntN(12) == 0,
		fetchHere: random.IntN(8) == 0, flush: one(0, 0, 1, 1, 1, 2, 3), async: random.IntN(2) == 0,
		compress: random.IntN(3) == 0, prefixSize: one(0, 0, 0, 1, 2, 3), piece: one(64, 1<<10, 16<<10, 64<<10),
	}
	switch random.IntN(8) {
	case 0:
		s.scheme = "SINGLE"
	case 1, 2:
		s.scheme, s.losses = "PARTNER", one(1, 1, 2)
	case 3, 4:
		s.scheme, s.losses = "XOR", 1
	default:
		s.scheme, s.losses = "RS", one(1, 2, 3)
	}
	return s
}

func (s settings) environment() []string {
	bit := map[bool]string{false: "0", true: "1"}
	env := []string{
		"SCR_COPY_TYPE=" + s.scheme, "SCR_SET_SIZE=" + strconv.Itoa(s.setSize), "SCR_CACHE_SIZE=" + strconv.Itoa(s.cacheSize),
		"SCR_CACHE_BYPASS=" + bit[s.bypass], "SCR_FETCH_BYPASS=" + bit[s.fetchHere], "SCR_FLUSH=" + strconv.Itoa(s.flush),
		"SCR_FLUSH_ASYNC=" + bit[s.async], "SCR_PREFIX_SIZE=" + strconv.Itoa(s.prefixSize),
		"SCR_MPI_BUF_SIZE=" + strconv.Itoa(s.piece), "SCR_FILE_BUF_SIZE=" + strconv.Itoa(s.piece),
	}
	if s.scheme == "PARTNER" || s.scheme == "RS" {
		env = append(env, "SCR_SET_FAILURES="+strconv.Itoa(s.losses))
	}
	if s.compress {
		env = append(env, "SCR_FLUSH_COMPRESS=zstd")
	}
	return env
}

// String returns them as text for a story: without what is off.
func (s settings) String() string {
	var list []string
	for _, e := range s.environment() {
		if !strings.HasSuffix(e, "BYPASS=0") && e != "SCR_FLUSH_ASYNC=0" && e != "SCR_PREFIX_SIZE=0" && !strings.HasPrefix(e, "SCR_FILE_BUF") {
			list = append(list, e)
		}
	}
	return strings.Join(list, " ")
}

// launch is how a run is started.
type launch struct {
	nodes []string // on which each rank is
	set   settings
}

// String returns it as text for a story, which has the nodes in the order of ranks: "a a b b".
func (l launch) String() string {
	return fmt.Sprintf("%d ranks on nodes %s, %v", len(l.nodes), strings.Join(l.nodes, " "), l.set)
}
