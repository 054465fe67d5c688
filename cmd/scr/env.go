package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/hostlist"
	jobrun "github.com/goscr/goscr/internal/run"
)

// openJob finds out about the job a command is called for. Commands on nodes are
// run by this same program.
func (c *context) openJob(prefix string) (*jobrun.Job, error) {
	j, warnings, err := jobrun.Open(prefix)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		fmt.Fprintf(c.err, "SCR: %s\n", w)
	}
	j.Out = c.err
	if j.Tool, err = os.Executable(); err == nil {
		j.Tool, err = filepath.EvalSymlinks(j.Tool)
	}
	return j, err
}

// prefixFlag is the option that most commands have.
func prefixFlag(flags *pflag.FlagSet) *string {
	return flags.StringP("prefix", "p", "", "prefix directory (default: $SCR_PREFIX, else the current directory)")
}

var envCommand = command{
	names: []string{"scr_env"},
	use:   "--user|--jobid|--nodes|--down|--endtime|--runnodes|--prefix",
	short: "what is known about the job: user, id, nodes, end",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		ask := map[string]func(*jobrun.Job) (string, error){
			"user":   func(j *jobrun.Job) (string, error) { return j.Config.UserName, nil },
			"prefix": func(j *jobrun.Job) (string, error) { return j.Prefix, nil },
			"jobid":  func(j *jobrun.Job) (string, error) { return j.ID(c.ctx()) },
			"nodes": func(j *jobrun.Job) (string, error) {
				nodes, err := j.Nodes(c.ctx())
				return hostlist.Compress(nodes), err
			},
			"down": func(j *jobrun.Job) (string, error) {
				nodes, err := j.Nodes(c.ctx())
				if err != nil {
					return "", err
				}
				down, err := j.Manager.Down(c.ctx(), nodes)
				var names []string
				for n := range down {
					names = append(names, n)
				}
				return hostlist.Compress(names), err
			},
			"endtime": func(j *jobrun.Job) (string, error) {
				end, err := j.Manager.End(c.ctx())
				if err != nil || end.IsZero() {
					return "0", err
				}
				return strconv.FormatInt(end.Unix(), 10), nil
			},
			"runnodes": func(j *jobrun.Job) (string, error) {
				n, err := j.NodesUsed()
				return strconv.Itoa(n), err
			},
		}
		order := []string{"user", "jobid", "endtime", "nodes", "down", "prefix", "runnodes"}
		for name, help := range map[string]string{
			"user": "print the user's name", "jobid": "print the id of the allocation", "nodes": "print the nodes of the allocation",
			"down":    "print those that the resource manager knows to be down",
			"endtime": "print when the allocation ends, in seconds since 1970; 0 if that is not known",
			"prefix":  "print the prefix directory", "runnodes": "print the number of nodes that the last run has used",
		} {
			flags.BoolP(name, name[:1], false, help)
		}
		return c.aboutJob(noPrefix, func(j *jobrun.Job) error {
			asked := 0
			for _, name := range order {
				if !flags.Changed(name) {
					continue
				}
				asked++
				text, err := ask[name](j)
				if err != nil {
					return err
				}
				fmt.Fprintln(c.out, text)
			}
			if asked == 0 {
				return fmt.Errorf("ask for something: --%s; %w", strings.Join(order, ", --"), errUsage)
			}
			return nil
		})
	},
}
