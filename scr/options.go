package scr

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/session"
)

// Scheme is how checkpoints are protected against the loss of nodes.
type Scheme string

// The schemes. An empty Scheme is XOR.
const (
	Single  Scheme = "SINGLE"  // not at all: a lost node loses the checkpoint
	XOR     Scheme = "XOR"     // a node of each set may be lost; costs the n-th part of the data in a set of n
	Partner Scheme = "PARTNER" // neighbours keep copies
	RS      Scheme = "RS"      // Reed-Solomon: as many nodes of each set as Options.Failures may be lost
)

// Options say how Init begins a session. All ranks give the same. The zero value serves most programs.
//
// A field that is not zero is the parameter that its comment names; the environment and the
// configuration file of the user override it.
type Options struct {
	Prefix string // SCR_PREFIX: directory on the parallel file system; "": the working directory

	// NeedCheckpoint says yes at every n-th call (SCR_CHECKPOINT_INTERVAL), after so much time
	// (SCR_CHECKPOINT_SECONDS, in whole seconds), or when checkpoints have cost less than so
	// many percent of the time (SCR_CHECKPOINT_OVERHEAD).
	CheckpointInterval int
	CheckpointTime     time.Duration
	CheckpointOverhead float64

	Scheme    Scheme // SCR_COPY_TYPE
	SetSize   int    // SCR_SET_SIZE: ranks in a set; each is on another node
	Failures  int    // SCR_SET_FAILURES: nodes of a set that may be lost, for RS and PARTNER
	CacheBase string // SCR_CACHE_BASE: directory on the storage of each node
	CacheSize int    // SCR_CACHE_SIZE: datasets that stay there

	FlushInterval     int  // SCR_FLUSH: every n-th checkpoint is copied to the prefix directory; for none, Parameters has SCR_FLUSH: "0"
	FlushInBackground bool // SCR_FLUSH_ASYNC: while the program computes

	Parameters map[string]string // others, by their names
	Config     []string          // ... as lines of a configuration file, for instance CKPT=1 INTERVAL=4 TYPE=RS

	// Environ looks up environment variables; nil is os.LookupEnv.
	Environ func(name string) (value string, ok bool)
	// Log receives the messages of the library; nil is os.Stderr.
	Log io.Writer
}

// settings returns the parameters that the options set.
func (o Options) settings() (*session.Settings, error) {
	if o.CheckpointTime%time.Second != 0 {
		return nil, fmt.Errorf("scr.Options: CheckpointTime is %v, which is no number of whole seconds", o.CheckpointTime)
	}
	set := &session.Settings{Environ: o.Environ}
	fields := o.fields()
	for _, parameters := range []map[string]string{fields, o.Parameters} {
		for _, name := range slices.Sorted(maps.Keys(parameters)) {
			if err := set.Set(name, parameters[name]); err != nil {
				return nil, fmt.Errorf("scr.Options: %w", err)
			}
		}
	}
	for name := range o.Parameters {
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("scr.Options: %s is in Parameters, and in a field of its own", name)
		}
	}
	for _, line := range o.Config {
		if err := set.Add(line); err != nil {
			return nil, fmt.Errorf("scr.Options: Config: %w", err)
		}
	}
	return set, nil
}

// fields returns the parameters of fields that are not zero.
func (o Options) fields() map[string]string {
	async := 0
	if o.FlushInBackground {
		async = 1
	}
	set := map[string]string{}
	for name, value := range map[string]any{
		"SCR_PREFIX":              o.Prefix,
		"SCR_CHECKPOINT_INTERVAL": o.CheckpointInterval,
		"SCR_CHECKPOINT_SECONDS":  int(o.CheckpointTime / time.Second),
		"SCR_CHECKPOINT_OVERHEAD": o.CheckpointOverhead,
		"SCR_COPY_TYPE":           o.Scheme,
		"SCR_SET_SIZE":            o.SetSize,
		"SCR_SET_FAILURES":        o.Failures,
		"SCR_CACHE_BASE":          o.CacheBase,
		"SCR_CACHE_SIZE":          o.CacheSize,
		"SCR_FLUSH":               o.FlushInterval,
		"SCR_FLUSH_ASYNC":         async,
	} {
		switch value {
		case "", Scheme(""), 0, 0.0: // the field is not set
		default:
			set[name] = fmt.Sprint(value)
		}
	}
	return set
}
