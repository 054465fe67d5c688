package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/job/hostlist"
)

var globHostsCommand = command{
	names:    []string{"scr_glob_hosts"},
	short:    "combine and count lists of hosts, such as atlas[3,5-7,9-11]",
	synopsis: []string{"--expand|--compress|--count|--nth N|--minus|--intersection|--union HOSTS..."},
	long:     `The hosts are the value of the option (--count=HOSTS), follow it as arguments, or are given with -h.`,
	examples: `    $ scr_glob_hosts --minus atlas[1-9]:atlas[3,5]
    atlas[1-2,4,6-9]`,
	see:   []string{"scr_hostlist"},
	takes: true,
	before: func(args []string) []string {
		if len(args) == 1 && args[0] == "-h" {
			return []string{"--help"} // with a word after it, it is --hosts
		}
		return args
	},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		modes := []struct{ name, short, help string }{
			{"expand", "e", "print each of `HOSTS`"},
			{"compress", "c", "print `HOSTS` with ranges of numbers"},
			{"count", "C", "print the number of `HOSTS`"},
			{"minus", "m", "of `HOSTS`, two lists LIST:LIST or LIST LIST, print the hosts that are only in the first"},
			{"intersection", "i", "of `HOSTS`, two lists, print the hosts that are in both"},
			{"union", "u", "of `HOSTS`, any number of lists, print the hosts that are in any of them"},
		}
		for _, m := range modes {
			flags.StringP(m.name, m.short, "", m.help)
			flags.Lookup(m.name).NoOptDefVal = omitted
		}
		nth := flags.IntP("nth", "n", 0, "print the `N`-th host, counted from 1, or from the end if negative")
		f := c.facts(flags)
		hosts := flags.StringArrayP("hosts", "h", nil, "the hosts are `HOSTS`")
		return func(args []string) error {
			args = append(*hosts, args...)
			mode := ""
			flags.Visit(func(f *pflag.Flag) {
				if f.Name == "hosts" || f.Name == "json" {
					return
				}
				mode += f.Name
				if f.Name != "nth" && strings.TrimSpace(f.Value.String()) != "" {
					args = append([]string{f.Value.String()}, args...)
				}
			})
			text, err := globHosts(mode, *nth, args)
			if err != nil {
				return err
			}
			if n, e := strconv.Atoi(text); f.json && mode == "count" && e == nil {
				return c.encode(n)
			}
			if !f.json {
				return f.say(nil, text)
			}
			all, err := hostlist.Parse(strings.ReplaceAll(text, " ", ","))
			if err != nil {
				return err
			}
			return c.encode(append([]string{}, all...))
		}
	},
}

// hostlistCommand has the options of SCR 3.1, some of which have the letters of others in
// scr_glob_hosts.
var hostlistCommand = command{
	names:    []string{"scr_hostlist"},
	short:    "combine, shorten and count lists of hosts, with the options of SCR 3.1",
	synopsis: []string{"[-m | -i] [-s N] [-n N] [-c | -e [-d TEXT]] HOSTS [HOSTS]"},
	long: `Prints the hosts as a list with ranges of numbers, such as atlas[3,5-7,9-11], or as the options say: first -m
and -i choose from two lists, then -s and -n, and then -c and -e say how to print them.`,
	examples: `    $ scr_hostlist --minus atlas[1-9] atlas[3,5]
    atlas[1-2,4,6-9]`,
	see:   []string{"scr_glob_hosts"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		minus := flags.BoolP("minus", "m", false, "of two lists, take the hosts that are only in the first")
		both := flags.BoolP("intersection", "i", false, "of two lists, take the hosts that are in both")
		most := flags.IntP("size", "s", 0, "take the first `N` hosts, or the last if N is negative")
		nth := flags.IntP("nth", "n", 0, "take the `N`-th host, counted from 1, or from the end if negative")
		count := flags.BoolP("count", "c", false, "print the number of hosts")
		expand := flags.BoolP("expand", "e", false, "print each of them")
		f := c.facts(flags)
		between := flags.StringP("delimiter", "d", ",", "with --expand, print `TEXT` between them; \\n and \\t are a line break and a tab")
		return func(args []string) error {
			hosts, err := chooseHosts(args, *minus, *both)
			if err != nil {
				return err
			}
			switch n := *most; {
			case n > 0:
				hosts = hosts[:min(n, len(hosts))]
			case n < 0:
				hosts = hosts[max(len(hosts)+n, 0):]
			}
			if flags.Changed("nth") {
				host, err := hostlist.Nth(hosts, *nth)
				if err != nil {
					return err
				}
				hosts = []string{host}
			}
			text := hostlist.Compress(hosts)
			switch {
			case *count:
				return f.say(len(hosts), strconv.Itoa(len(hosts)))
			case *expand:
				text = strings.Join(hosts, strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(*between))
			}
			return f.say(append([]string{}, hosts...), text)
		}
	},
}

// chooseHosts returns the hosts of all lists, or, if minus or both is set, those of the
// first of two lists that are not or that are in the second.
func chooseHosts(args []string, minus, both bool) ([]string, error) {
	var lists [][]string
	for _, arg := range args {
		hosts, err := hostlist.Parse(arg)
		if err != nil {
			return nil, err
		}
		lists = append(lists, hosts)
	}
	switch {
	case len(lists) == 0:
		return nil, fmt.Errorf("no hosts given; %w", errUsage)
	case minus && both:
		return nil, fmt.Errorf("--minus and --intersection do not go together; %w", errUsage)
	case (minus || both) && len(lists) != 2:
		return nil, fmt.Errorf("--minus and --intersection take two lists, found %d; %w", len(lists), errUsage)
	case minus:
		return hostlist.Minus(lists[0], lists[1]), nil
	case both:
		return hostlist.Intersection(lists[0], lists[1]), nil
	}
	return hostlist.Parse(strings.Join(args, ","))
}

func globHosts(mode string, nth int, args []string) (string, error) {
	var lists [][]string
	for i, arg := range args {
		if i+1 < len(args) {
			arg = strings.TrimSuffix(arg, ":") // LIST: LIST
		}
		for list := range strings.SplitSeq(arg, ":") {
			hosts, err := hostlist.Expand(list)
			if err != nil {
				return "", err
			}
			lists = append(lists, hosts)
		}
	}
	if len(lists) == 0 {
		return "", fmt.Errorf("no hosts given; %w", errUsage)
	}
	all := hostlist.Union(lists...)
	switch mode {
	case "expand":
		return strings.Join(all, " "), nil
	case "compress", "union":
		return hostlist.Compress(all), nil
	case "count":
		return strconv.Itoa(len(all)), nil
	case "nth":
		return hostlist.Nth(all, nth)
	case "minus", "intersection":
		if len(lists) != 2 {
			return "", fmt.Errorf("--%s takes two lists, found %d; %w", mode, len(lists), errUsage)
		}
		if mode == "minus" {
			return hostlist.Compress(hostlist.Minus(lists[0], lists[1])), nil
		}
		return hostlist.Compress(hostlist.Intersection(lists[0], lists[1])), nil
	}
	return "", fmt.Errorf("exactly one of --expand, --compress, --count, --nth, --minus, --intersection and --union is needed; %w", errUsage)
}
