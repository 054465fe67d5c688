package variables

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Config is VELOC's configuration, as parameters of goscr.
type Config struct {
	Scratch, Persistent string // directories
	Parameters          map[string]string
	Ignored             []string // a line for each key that has no effect, and what goscr does instead
}

// keys are those of VELOC 1.8.
var keys = []string{"scratch", "persistent", "mode", "persistent_interval", "ec_interval", "watchdog_interval", "max_versions", "scratch_versions",
	"failure_domain", "axl_type", "chksum", "meta", "threaded", "aggregated", "log_prefix", "daos_pool", "daos_cont"}

// instead says for keys that have no effect what goscr does.
var instead = map[string]string{
	"watchdog_interval": "goscr needs no watchdog",
	"failure_domain":    "ranks of a node fail together; a set of ranks has each on another node, and SCR_GROUP names larger groups",
	"axl_type":          "goscr copies with its own threads (SCR_FLUSH_TYPE)",
	"chksum":            "goscr takes and checks checksums always",
	"meta":              "goscr keeps its own files in .scr in the directory persistent",
	"threaded":          "goscr copies with its own threads in any case",
	"aggregated":        "each rank has its own file",
	"log_prefix":        "goscr writes messages to stderr; SCR_LOG_TXT_ENABLE writes a log",
	"daos_pool":         "goscr writes to file systems",
	"daos_cont":         "goscr writes to file systems",
}

// keepAll is a number of versions that no cache holds.
const keepAll = "1000000"

// ReadConfig reads VELOC's configuration: the file path, if it is not "", and VELOC_<KEY> in the environment, which overrides it.
func ReadConfig(path string, environ func(string) (string, bool)) (Config, error) {
	values := map[string]string{}
	if path != "" {
		f, err := os.Open(path)
		if err != nil {
			return Config{}, err
		}
		defer f.Close()
		if values, err = parse(f); err != nil {
			return Config{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, key := range keys {
		if value, ok := environ("VELOC_" + strings.ToUpper(key)); ok && value != "" {
			values[key] = value
		}
	}
	return translate(values)
}

// SinglePrefix returns the prefix directory of a process without a communicator: each has one, with an index of its own.
func SinglePrefix(persistent string, id int) string {
	return filepath.Join(persistent, fmt.Sprint("single-", id))
}

// parse reads lines KEY = VALUE. Comments begin with # or ;.
func parse(r io.Reader) (map[string]string, error) {
	values := map[string]string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' || line[0] == '[' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("line %d is not KEY = VALUE: %s", n, line)
		}
		value, _, _ = strings.Cut(value, " ;")
		value, _, _ = strings.Cut(value, " #")
		values[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
	return values, lines.Err()
}

// translate makes parameters of the values.
func translate(values map[string]string) (Config, error) {
	c := Config{Scratch: values["scratch"], Persistent: values["persistent"]}
	for key, dir := range map[string]string{"scratch": c.Scratch, "persistent": c.Persistent} {
		if dir == "" {
			return c, fmt.Errorf("the configuration has no directory %s", key)
		}
		if err := exists(dir); err != nil {
			return c, fmt.Errorf("the directory %s of the configuration: %w", key, err)
		}
	}
	c.Parameters = map[string]string{
		"SCR_PREFIX": c.Persistent, "SCR_CACHE_BASE": c.Scratch,
		"SCR_FLUSH": "1", // VELOC makes each version persistent unless it is told otherwise
	}
	switch mode := strings.ToLower(cmp.Or(values["mode"], "sync")); mode {
	case "sync":
	case "async":
		c.Parameters["SCR_ENCODE_ASYNC"], c.Parameters["SCR_FLUSH_ASYNC"] = "1", "1"
	default:
		return c, fmt.Errorf("mode = %s: it is sync or async", mode)
	}
	number := func(key string) (int, error) {
		n, err := strconv.Atoi(cmp.Or(values[key], "0"))
		if err != nil {
			return 0, fmt.Errorf("%s = %s is no number", key, values[key])
		}
		return n, nil
	}
	var n int
	var err error
	if n, err = number("persistent_interval"); err != nil {
		return c, err
	}
	switch {
	case n < 0:
		c.Parameters["SCR_FLUSH"] = "0"
	case n > 0:
		c.Ignored = append(c.Ignored, fmt.Sprintf("persistent_interval = %d: goscr makes every version persistent; SCR_FLUSH=n makes every n-th so", n))
	}
	if n, err = number("ec_interval"); err != nil {
		return c, err
	}
	switch {
	case n < 0:
		c.Parameters["SCR_COPY_TYPE"] = "SINGLE"
	case n > 0:
		c.Ignored = append(c.Ignored, fmt.Sprintf("ec_interval = %d: goscr protects every version", n))
	}
	if n, err = number("max_versions"); err != nil {
		return c, err
	}
	if n > 0 {
		c.Parameters["SCR_PREFIX_SIZE"] = strconv.Itoa(n)
	}
	if n, err = number("scratch_versions"); err != nil {
		return c, err
	}
	switch {
	case n > 0:
		c.Parameters["SCR_CACHE_SIZE"] = strconv.Itoa(n)
	case values["scratch_versions"] != "":
		c.Parameters["SCR_CACHE_SIZE"] = keepAll
	}
	for _, key := range keys {
		if text, ok := instead[key]; ok && values[key] != "" && !(key == "chksum" && values[key] == "true") {
			c.Ignored = append(c.Ignored, fmt.Sprintf("%s = %s has no effect: %s", key, values[key], text))
		}
	}
	for key := range values {
		if !slices.Contains(keys, key) {
			c.Ignored = append(c.Ignored, fmt.Sprintf("%s is no key of VELOC 1.8", key))
		}
	}
	slices.Sort(c.Ignored)
	for i, line := range c.Ignored {
		c.Ignored[i] = "VELOC's configuration: " + line
	}
	return c, nil
}
