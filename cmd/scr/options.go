package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/config"
)

// Options that commands of SCR 3.1 have, in the forms in which its scripts pass them.

// parse reads the options of a command and returns its other arguments. As getopt_long
// and argparse do, it takes the beginning of a long option for the option if no other
// begins so.
func (c *context) parse(command *command, flags *pflag.FlagSet, args []string) ([]string, error) {
	abbreviate(flags)
	if command.lenient {
		var unknown []string
		args, unknown = dropUnknown(flags, args)
		for _, option := range unknown {
			fmt.Fprintf(c.err, "%s: option %s is not known and is ignored\n", flags.Name(), option)
		}
	}
	err := flags.Parse(args)
	return flags.Args(), err
}

// abbreviate makes the beginning of a long option mean the option, if that is clear.
func abbreviate(flags *pflag.FlagSet) {
	var all, shown []string
	flags.VisitAll(func(f *pflag.Flag) {
		all = append(all, f.Name)
		if !f.Hidden {
			shown = append(shown, f.Name)
		}
	})
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if slices.Contains(all, name) {
			return pflag.NormalizedName(name)
		}
		var match []string
		for _, long := range shown {
			if strings.HasPrefix(long, name) {
				match = append(match, long)
			}
		}
		if len(match) == 1 {
			name = match[0]
		}
		return pflag.NormalizedName(name)
	})
}

// withTwoDashes gives long options two dashes, where commands of Open MPI take one as well.
func withTwoDashes(flags *pflag.FlagSet, args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return args
		case len(name) > 2 && name[0] == '-' && name[1] != '-' && flags.Lookup(name[1:]) != nil:
			args[i] = "-" + arg
		}
	}
	return args
}

// dropUnknown removes options that a command does not have, each with the word after it
// if that may be its value. pflag can do so too, but does not say which they were.
func dropUnknown(flags *pflag.FlagSet, args []string) (known, unknown []string) {
	next := func(option string) { // the next word may be the value of an unknown option
		unknown = append(unknown, option)
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			args = args[1:]
		}
	}
	value := func(f *pflag.Flag) { // the next word is the value of a known option
		if f != nil && f.NoOptDefVal == "" && len(args) > 0 {
			known, args = append(known, args[0]), args[1:]
		}
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			return append(append(known, arg), args...), unknown
		case strings.HasPrefix(arg, "--"):
			name, _, hasValue := strings.Cut(arg[2:], "=")
			f := flags.Lookup(name)
			switch {
			case f == nil && name != "help" && hasValue:
				unknown = append(unknown, arg)
			case f == nil && name != "help":
				next(arg)
			default:
				known = append(known, arg)
				if !hasValue {
					value(f)
				}
			}
		case len(arg) > 1 && arg[0] == '-':
			good, bad, last := letters(flags, arg[1:])
			if good != "" {
				known = append(known, "-"+good)
			}
			switch {
			case len(bad) == 1:
				next("-" + bad)
			case bad != "":
				unknown = append(unknown, "-"+bad)
			default:
				value(last)
			}
		default:
			known = append(known, arg)
		}
	}
	return known, unknown
}

// letters divides options of one letter that are written as one word: good are those that
// the command has, with the value of the last one if it takes one; bad is the rest. last
// is the option whose value is the next word, nil if none is.
func letters(flags *pflag.FlagSet, word string) (good, bad string, last *pflag.Flag) {
	for i := range len(word) {
		f := flags.ShorthandLookup(word[i : i+1])
		switch {
		case f == nil && word[i] != 'h':
			return word[:i], word[i:], nil
		case f != nil && f.NoOptDefVal == "" && i+1 < len(word):
			return word, "", nil
		case f != nil && f.NoOptDefVal == "":
			return word, "", f
		}
	}
	return word, "", nil
}

// alias gives an option another name and letter.
func alias(flags *pflag.FlagSet, of, name, letter string) {
	f := flags.Lookup(of)
	value, _ := pflag.UnquoteUsage(f)
	about := "the same as --" + of
	if value != "" {
		about += " `" + value + "`"
	}
	flags.VarPF(f.Value, name, letter, about).NoOptDefVal = f.NoOptDefVal
}

// given reports whether an option was given by one of several names.
func given(flags *pflag.FlagSet, names ...string) bool {
	return slices.ContainsFunc(names, flags.Changed)
}

// unused is the help of options that scripts for SCR 3.1 pass and goscr does not need.
const unused = " (scripts for SCR 3.1 pass it; it changes nothing)"

// launcherFlag is the option of commands that look at nodes.
func launcherFlag(flags *pflag.FlagSet) {
	flags.StringP("joblauncher", "j", "", "launcher `NAME` of the job's runs; the resource manager says how nodes are reached, so it is not needed")
}

// sizeFlag is an option that takes a number of bytes, as 65536 or 64k.
func sizeFlag(flags *pflag.FlagSet, name, letter string, bytes int64, about string) *int64 {
	s := size(bytes)
	flags.VarP(&s, name, letter, about)
	return (*int64)(&s)
}

type size int64

func (s *size) String() string { return fmt.Sprint(int64(*s)) }
func (s *size) Type() string   { return "bytes" }

func (s *size) Set(text string) error {
	n, ok := config.ParseSize(text)
	if !ok {
		return fmt.Errorf("%q is not a number of bytes, such as 4096, 64k or 20g", text)
	}
	*s = size(n)
	return nil
}
