package session

import (
	"io"
	"os"
	"time"

	"github.com/goscr/goscr/internal/config"
)

// Options change how Init begins a session. The zero value serves most
// programs.
type Options struct {
	Settings *Settings
	// Environ looks up environment variables. If it is nil, that of Settings is used, or
	// else os.LookupEnv.
	Environ func(name string) (string, bool)
	// Log receives the messages of the library; if it is nil they go to os.Stderr.
	Log io.Writer

	// Warnings are lines of the caller about the settings, which rank 0 logs.
	Warnings []string

	// Gate reports whether the caller waits for a debugger after a checkpoint if Session.Gate says
	// so; nil: it does not. scr_checkpoint --attach stops the processes else.
	Gate func() bool

	// Exclusive says that world is an mpi.Revocable which the caller does not use while a method of the session
	// runs, and frees after the session. The session then uses it itself: a copy would take all ranks time to make.
	Exclusive bool

	launch func(control string) error // for tests: see flush.Config
	pause  func()                     // for tests: stops the process; nil: by SIGSTOP
	booted time.Time                  // for tests: see cache.Config
	faults faults                     // for tests
}

// environ returns the function with which a session looks up environment variables.
func (o Options) environ() func(name string) (string, bool) {
	switch {
	case o.Environ != nil:
		return o.Environ
	case o.Settings != nil && o.Settings.Environ != nil:
		return o.Settings.Environ
	}
	return os.LookupEnv
}

// Settings are parameters that a program sets before Init. The environment and the user's
// configuration file take precedence over them. The zero value is empty and ready for use,
// with the environment of the process.
type Settings struct {
	// Environ looks environment variables up for queries; nil is os.LookupEnv.
	Environ func(name string) (string, bool)
	// Names returns the names of all environment variables, so that Init can warn of
	// unknown ones. If both Names and Environ are nil, they are those of the process.
	Names func() []string

	// Err is an error that the caller has met while it made the settings, nil if there is none. Init fails with it on all ranks.
	Err error

	program config.Settings
}

// ErrAmbiguous is the error of a query for which there are several values.
var ErrAmbiguous = config.ErrAmbiguous

// Config executes a string with the syntax of SCR_Config:
//
//	A=B          sets A, in place of what was set before
//	A=           takes back what was set
//	A            returns the value of A, from whatever place sets it
//	A=B C=D      sets child C of item A=B, beside the other items A: CKPT=0 TYPE=XOR
//	A=B C        returns a child of an item
//
// A value ends at a blank; "A = B" is the same as "A=B". A query returns what the
// environment, a configuration file or the program has set, not a default. ok reports
// whether value is valid; it is false if the string sets or takes back. If there are several
// values, the error is ErrAmbiguous. The configuration files are read for the first query,
// and again when the string changes SCR_PREFIX or SCR_CONF_FILE.
func (s *Settings) Config(text string) (value string, ok bool, err error) {
	return s.internal().Config(text)
}

// Set sets a parameter to a value that may have blanks; "" takes back what was set.
func (s *Settings) Set(name, value string) error { return s.internal().Set(name, value) }

// Add is Config for a string that sets; a query is an error.
func (s *Settings) Add(text string) error { return s.internal().Add(text) }

// Text returns the settings in the format of a configuration file. The same strings in the
// same order give the same text; it is "" if there are none.
func (s *Settings) Text() string { return s.internal().Text() }

// public returns Text without secrets.
func (s *Settings) public() string { return s.internal().Public() }

// internal returns the settings as package config uses them, nil for a nil receiver.
func (s *Settings) internal() *config.Settings {
	if s == nil {
		return nil
	}
	s.program.Environ, s.program.Names, s.program.Err = s.Environ, s.Names, s.Err
	return &s.program
}
