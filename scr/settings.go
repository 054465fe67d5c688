package scr

import "github.com/goscr/goscr/internal/config"

// Settings are parameters that a program sets before Init. Environment and the
// user's configuration file win over them. The zero value is empty and ready for
// use, with the environment of the process.
type Settings struct {
	// Environ is asked by queries; nil is the environment of the process.
	Environ func(name string) (string, bool)
	// Names lists the variables of the environment, to warn of those that mean
	// nothing; nil is those of the process, if Environ is nil.
	Names func() []string

	program config.Settings
}

// Config does what a string given to SCR_Config asks for:
//
//	A=B                      sets A
//	A=                       unsets A
//	A                        returns the value of A
//	CKPT=0 TYPE=XOR COUNT=   sets and unsets fields of an item
//	CKPT=0 TYPE              returns a field of an item
//	CKPT                     returns the ids of all items, separated by blanks
//	CKPT=                    unsets all items of the kind
//
// Values are written as in a configuration file, with quotes around blanks; one string
// may set several parameters. A query returns the value from the environment, from the
// program or the default; files are not read before Init. ok reports whether there is a
// value, and is false for what sets one.
func (s *Settings) Config(text string) (value string, ok bool, err error) {
	return s.internal().Config(text)
}

// Text is what is set, as a configuration file: the same for the same settings, "" for
// none.
func (s *Settings) Text() string { return s.internal().Text() }

// public is Text without secrets.
func (s *Settings) public() string { return s.internal().Public() }

// internal is what package config makes of it, nil for nil.
func (s *Settings) internal() *config.Settings {
	if s == nil {
		return nil
	}
	s.program.Environ, s.program.Names = s.Environ, s.Names
	return &s.program
}
