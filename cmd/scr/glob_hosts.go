package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/hostlist"
)

var globHostsCommand = command{
	names: []string{"scr_glob_hosts", "scr_hostlist"},
	use:   "--expand|--compress|--count|--nth N|--minus|--intersection|--union HOSTS...",
	short: "sums with lists of hosts, such as atlas[3,5-7,9-11]",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		// Each takes the hosts as its value (--count=LIST) or behind it.
		modes := []struct{ name, short, help string }{
			{"expand", "e", "print each host of the list"},
			{"compress", "c", "print the list as short as it gets"},
			{"count", "C", "print the number of hosts"},
			{"minus", "m", "of two lists, LIST:LIST or LIST LIST, print what is in the first only"},
			{"intersection", "i", "print what is in both of two lists"},
			{"union", "u", "print what is in any of the lists"},
		}
		for _, m := range modes {
			flags.StringP(m.name, m.short, "", m.help)
			flags.Lookup(m.name).NoOptDefVal = omitted
		}
		nth := flags.IntP("nth", "n", 0, "print the N-th host, counted from 1, or from the end if negative")
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

// omitted is the value of an option of scr_glob_hosts whose hosts stand behind it.
const omitted = " "

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
