package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/hostlist"
	jobrun "github.com/goscr/goscr/internal/job/run"
)

// Parameters on which commands depend that are about ...
var (
	ofPrefix  = []string{"SCR_PREFIX"}
	ofControl = []string{"SCR_CNTL_BASE", "SCR_USER_NAME", "SCR_JOB_ID"}                      // ... the files of a node
	ofJob     = []string{"SCR_PREFIX", "SCR_JOB_ID", "SCR_RESOURCE_MANAGER", "SCR_HOST_FILE"} // ... an allocation
	ofNodes   = slices.Concat(ofJob, []string{"SCR_NODELIST", "SCR_EXCLUDE_NODES", "SCR_REMOTE_SHELL"})
)

// openJob finds the job of a command. This same program runs commands on nodes.
func (c *context) openJob(prefix string) (*jobrun.Job, error) {
	j, warnings, err := openQuietly(c, prefix)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		if slices.Contains(c.ignored, w) { // it has been printed
			continue
		}
		fmt.Fprintf(c.err, "SCR: %s\n", w)
	}
	return j, nil
}

// openQuietly is like openJob, and returns the warnings instead of printing them.
func openQuietly(c *context, prefix string) (*jobrun.Job, []string, error) {
	j, warnings, err := jobrun.Open(prefix)
	if err != nil {
		return nil, nil, err
	}
	j.Out = c.err
	j.Database = c.database
	if j.Tool, err = os.Executable(); err == nil {
		j.Tool, err = filepath.EvalSymlinks(j.Tool)
	}
	return j, warnings, err
}

// jobOptions are the values of options that commands about a job have.
type jobOptions struct {
	prefix  string
	verbose bool
}

// jobFlags are these options.
func jobFlags(flags *pflag.FlagSet) *jobOptions {
	o := &jobOptions{}
	flags.StringVarP(&o.prefix, "prefix", "p", "", aboutPrefix)
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "print more on standard error, as with SCR_DEBUG=1")
	return o
}

// job finds the job that the options name.
func (c *context) job(o *jobOptions) (*jobrun.Job, error) {
	j, err := c.openJob(o.prefix)
	if err == nil && o.verbose {
		j.Config.Debug = max(j.Config.Debug, 1)
	}
	return j, err
}

// aboutJob returns the function of a command about the job of a prefix directory.
func (c *context) aboutJob(o *jobOptions, do func(j *jobrun.Job) error) func([]string) error {
	return func([]string) error {
		j, err := c.job(o)
		if err != nil {
			return err
		}
		return do(j)
	}
}

// noPrefix is for commands that do not use the prefix directory.
var noPrefix = &jobOptions{}

const aboutPrefix = "prefix directory `DIR` (default: $SCR_PREFIX, else the current directory)"

// prefixFlag is the option that most commands have.
func prefixFlag(flags *pflag.FlagSet) *string { return flags.StringP("prefix", "p", "", aboutPrefix) }

// prefixDir is the prefix directory of a command, from its option, else from the
// configuration.
func prefixDir(option string) (string, error) {
	dir := option
	if dir == "" {
		cfg, _, err := config.Read("")
		if err != nil {
			return "", err
		}
		dir = cfg.Prefix
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("the prefix directory %s does not exist; -p or SCR_PREFIX names another one", dir)
	case err != nil:
		err = fmt.Errorf("prefix directory: %w", err)
	case !info.IsDir():
		err = fmt.Errorf("the prefix directory %s is not a directory", dir)
	}
	return dir, err
}

// orArgument is the value of the option for the prefix directory, or, without that option, the only argument.
func orArgument(option string, args []string) (string, error) {
	if len(args) == 1 && option == "" {
		return args[0], nil
	}
	return option, noArguments(args)
}

// controlFlag is the option of commands that read the files of a node.
func controlFlag(flags *pflag.FlagSet) *string {
	return flags.StringP("cntldir", "c", "", "control directory `DIR` of the node (default: as SCR_CNTL_BASE, SCR_USER_NAME and SCR_JOB_ID say, as for the job)")
}

// controlDir is the control directory of a node, from the option, else from the job's
// configuration.
func controlDir(option string) (string, error) {
	if option != "" {
		return filepath.Abs(option)
	}
	cfg, _, err := config.Read("")
	if err != nil {
		return "", err
	}
	return filepath.Join(cfg.CntlBase, cfg.UserName, "scr."+cfg.JobID), nil
}

// nodeName is the name of the node in messages.
func nodeName() string {
	if cfg, _, err := config.Read(""); err == nil {
		return cfg.NodeName
	}
	name, _ := os.Hostname() // "" if it has none
	return name
}

// downFlag is the option that names nodes which are lost.
func downFlag(flags *pflag.FlagSet) *string {
	return flags.StringP("down", "d", "", "treat the nodes `NODES` as down, and do not ask them")
}

// downNodes reads the value of an option --down.
func downNodes(list string) (map[string]string, error) {
	nodes, err := hostlist.Expand(list)
	down := map[string]string{}
	for _, n := range nodes {
		down[n] = "named as down"
	}
	return down, err
}

// nodesAndDown finds the nodes of the allocation, and those of them that cannot be used,
// including those of the option --down.
func (c *context) nodesAndDown(j *jobrun.Job, list string) (nodes []string, down map[string]string, err error) {
	known, err := downNodes(list)
	if err != nil {
		return nil, nil, err
	}
	if nodes, err = j.Nodes(c.ctx()); err != nil {
		return nil, nil, err
	}
	down, err = j.Down(c.ctx(), nodes, known, false)
	return nodes, down, err
}
