package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/hostlist"
)

var globHostsCommand = command{
	names:    []string{"scr_glob_hosts", "scr_hostlist"},
	short:    "combine and count lists of hosts, such as atlas[3,5-7,9-11]",
	synopsis: []string{"--expand|--compress|--count|--nth N|--minus|--intersection|--union HOSTS..."},
	long:     `The hosts are the value of the option (--count=HOSTS), or follow it as arguments.`,
	examples: `    $ scr_glob_hosts --minus atlas[1-9]:atlas[3,5]
    atlas[1-2,4,6-9]`,
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		modes := []struct{ name, short, help string }{
			{"expand", "e", "print each of `HOSTS`"},
			{"compress", "c", "print `HOSTS` with ranges of numbers"},
			{"count", "C", "print how many `HOSTS` there are"},
			{"minus", "m", "of `HOSTS`, two lists LIST:LIST or LIST LIST, print what is in the first only"},
			{"intersection", "i", "of `HOSTS`, two lists, print what is in both"},
			{"union", "u", "of `HOSTS`, any number of lists, print what is in any"},
		}
		for _, m := range modes {
			flags.StringP(m.name, m.short, "", m.help)
			flags.Lookup(m.name).NoOptDefVal = omitted
		}
		nth := flags.IntP("nth", "n", 0, "print the `N`-th host, counted from 1, or from the end if negative")
		return func(args []string) error {
			mode := ""
			flags.Visit(func(f *pflag.Flag) {
				mode += f.Name
				if f.Name != "nth" && strings.TrimSpace(f.Value.String()) != "" {
					args = append([]string{f.Value.String()}, args...)
				}
			})
			text, err := globHosts(mode, *nth, args)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.out, text)
			return nil
		}
	},
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
