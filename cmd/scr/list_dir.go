package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

var listDirCommand = command{
	names: []string{"scr_list_dir", "scr_cntl_dir"},
	use:   "[--base] [--user NAME] [--jobid ID] control|cache",
	short: "the job's control or cache directories in the nodes",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		base := flags.BoolP("base", "b", false, "print what they are below of, without user and job id")
		user := flags.StringP("user", "u", "", "user's name (default: $SCR_USER_NAME, else the login name)")
		id := flags.StringP("jobid", "j", "", "id of the job (default: $SCR_JOB_ID, else the resource manager's)")
		dir := prefixFlag(flags)
		return func(args []string) error {
			if len(args) == 0 && flags.Name() == "scr_cntl_dir" {
				args = []string{"control"}
			}
			if len(args) != 1 || args[0] != "control" && args[0] != "cache" {
				return fmt.Errorf("say control or cache; %w", errUsage)
			}
			j, err := c.openJob(*dir)
			if err != nil {
				return err
			}
			bases := j.ControlBases()
			if args[0] == "cache" {
				bases = j.CacheBases()
			}
			for _, path := range bases {
				if !*base {
					if path, err = j.Below(c.ctx(), path, *user, *id); err != nil {
						return err
					}
				}
				fmt.Fprintln(c.out, path)
			}
			return nil
		}
	},
}
