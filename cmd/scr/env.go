package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/job/hostlist"
	jobrun "github.com/goscr/goscr/internal/job/run"
)

// question is one of the values that scr_env can print.
type question struct {
	name, help string
	answer     func(c *context, j *jobrun.Job) (string, error)
}

// questions are answered in this order.
var questions = []question{
	{"user", "print the user's name", func(_ *context, j *jobrun.Job) (string, error) { return j.Config.UserName, nil }},
	{"jobid", "print the id of the allocation", func(c *context, j *jobrun.Job) (string, error) { return j.ID(c.ctx()) }},
	{"endtime", "print when the allocation ends, in seconds since 1970; 0 if it is unknown", func(c *context, j *jobrun.Job) (string, error) {
		end, err := j.Manager.End(c.ctx())
		if err != nil || end.IsZero() {
			return "0", err
		}
		return strconv.FormatInt(end.Unix(), 10), nil
	}},
	{"nodes", "print the nodes of the allocation, separated by commas", func(c *context, j *jobrun.Job) (string, error) {
		nodes, err := j.Nodes(c.ctx())
		if err == nil {
			nodes, err = hostlist.Parse(strings.Join(nodes, ",")) // sorted
		}
		return strings.Join(nodes, ","), err
	}},
	{"down", "print the nodes that the resource manager knows to be down", func(c *context, j *jobrun.Job) (string, error) {
		nodes, err := j.Nodes(c.ctx())
		if err != nil {
			return "", err
		}
		down, err := j.Manager.Down(c.ctx(), nodes)
		return strings.Join(hostlist.Intersection(nodes, slices.Collect(maps.Keys(down))), ","), err
	}},
	{"prefix", "print the prefix directory; --prefix=DIR or -p DIR sets it and prints nothing", func(_ *context, j *jobrun.Job) (string, error) { return j.Prefix, nil }},
	{"runnodes", "print the number of nodes that the last run has used", func(_ *context, j *jobrun.Job) (string, error) {
		n, err := j.NodesUsed()
		return strconv.Itoa(n), err
	}},
}

var envCommand = command{
	names:    []string{"scr_env"},
	short:    "print values of the job: user, id, nodes, end",
	synopsis: []string{"[--user] [--jobid] [--endtime] [--nodes] [--down] [--runnodes] [--prefix | -p DIR]"},
	long:     `Each option prints one line. Several options print their lines in the order in which they are listed here.`,
	environ:  slices.Concat(ofJob, []string{"SCR_USER_NAME", "SCR_NODELIST", "SCR_END_TIME"}),
	examples: `    scr_env --jobid --nodes`,
	see:      []string{"scr_run", "scr_list_dir", "scr_list_down_nodes"},
	takes:    true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		var names []string
		f := c.facts(flags)
		prefix := ""
		for _, q := range questions {
			names = append(names, q.name)
			if q.name == "prefix" {
				flags.StringVarP(&prefix, q.name, q.name[:1], "", strings.Replace(q.help, "DIR", "`DIR`", 1))
				flags.Lookup(q.name).NoOptDefVal = omitted
				continue
			}
			flags.BoolP(q.name, q.name[:1], false, q.help)
		}
		return func(args []string) error {
			if prefix == omitted && len(args) == 1 {
				prefix, args = args[0], nil // -p DIR
			}
			if err := noArguments(args); err != nil {
				return err
			}
			of := &jobOptions{prefix: strings.TrimPrefix(prefix, omitted)}
			j, err := c.job(of)
			if err != nil {
				return err
			}
			asked := false
			values := map[string]string{}
			for _, q := range questions {
				if !flags.Changed(q.name) || q.name == "prefix" && of.prefix != "" {
					continue
				}
				asked = true
				text, err := q.answer(c, j)
				if err != nil {
					return err
				}
				values[q.name] = text
				if !f.json {
					fmt.Fprintln(c.out, text)
				}
			}
			if !asked {
				return fmt.Errorf("ask for something: --%s; %w", strings.Join(names, ", --"), errUsage)
			}
			if f.json {
				return c.encode(values)
			}
			return nil
		}
	},
}
