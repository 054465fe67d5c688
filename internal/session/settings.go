package session

import "github.com/goscr/goscr/internal/config"

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
