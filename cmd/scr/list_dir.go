package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

var listDirCommand = command{
	names:    []string{"scr_list_dir", "scr_cntl_dir"},
	short:    "print the job's control or cache directories on the nodes",
	synopsis: []string{"[--base] [--user NAME] [--jobid ID] control|cache"},
	long:     `Directories are separated by blanks. As scr_cntl_dir it lists control directories if nothing is said.`,
	environ:  append([]string{"SCR_CACHE_BASE"}, slices.Concat(ofControl, ofPrefix)...),
	see:      []string{"scr_env", "scr_check_node"},
	takes:    true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		base := flags.BoolP("base", "b", false, "print the directories without user and job id")
		user := flags.StringP("user", "u", "", "for user `NAME` (default: $SCR_USER_NAME, else the login name)")
		id := flags.StringP("jobid", "j", "", "for the job `ID` (default: $SCR_JOB_ID, else the resource manager's)")
		dir := prefixFlag(flags)
		f := c.facts(flags)
		return func(args []string) error {
			if len(args) == 0 && flags.Name() == "scr_cntl_dir" {
				args = []string{"control"}
			}
			if len(args) != 1 || args[0] != "control" && args[0] != "cache" {
				return fmt.Errorf("name control or cache; %w", errUsage)
			}
			j, err := c.openJob(*dir)
			if err != nil {
				return err
			}
			bases := j.ControlBases()
			if args[0] == "cache" {
				bases = j.CacheBases()
			}
			if !*base {
				for i, path := range bases {
					if bases[i], err = j.Below(c.ctx(), path, *user, *id); err != nil {
						return err
					}
				}
			}
			return f.say(bases, strings.Join(bases, " "))
		}
	},
}
