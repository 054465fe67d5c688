package scr

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

	program config.Settings
}

// Config executes a string with the syntax of SCR_Config:
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
// program or the default; files are not read before Init. ok reports whether value is
// valid; it is false if the string sets or unsets parameters.
func (s *Settings) Config(text string) (value string, ok bool, err error) {
	return s.internal().Config(text)
}

// Text returns the settings in the format of a configuration file. Equal settings give
// equal texts; it is "" if there are none.
func (s *Settings) Text() string { return s.internal().Text() }

// public returns Text without secrets.
func (s *Settings) public() string { return s.internal().Public() }

// internal returns the settings as package config uses them, nil for a nil receiver.
func (s *Settings) internal() *config.Settings {
	if s == nil {
		return nil
	}
	s.program.Environ, s.program.Names = s.Environ, s.Names
	return &s.program
}
