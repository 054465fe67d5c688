package session

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// settles runs a job whose program gives lines to SCR_Config, which may differ between its ranks, and does nothing
// else. getenv, if it is there, is asked first for variables of the environment.
func (c *cluster) settles(lines func(rank int) []string, getenv func(name string) (value string, set, known bool)) error {
	_, err := local.Run(4, c.opt, func(world mpi.Comm) error {
		opt := c.options(four[world.Rank()])
		if environ := opt.Environ; getenv != nil {
			opt.Environ = func(name string) (string, bool) {
				if value, set, known := getenv(name); known {
					return value, set
				}
				return environ(name)
			}
		}
		opt.Settings = &Settings{}
		for _, line := range lines(world.Rank()) {
			if _, _, err := opt.Settings.Config(line); err != nil {
				return err
			}
		}
		s, err := Init(world, opt)
		if err != nil {
			return err
		}
		return s.Finalize()
	})
	return err
}

// What the program sets is there for commands as long as it sets it.
func TestSettings_AreLeftToCommands(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	run := func(lines ...string) error {
		return c.settles(func(rank int) []string {
			own := slices.Clone(lines)
			if i := slices.Index(own, "differs"); i >= 0 {
				own[i] = map[bool]string{true: "SCR_JOB_NAME=a", false: "SCR_JOB_NAME=b"}[rank == 2]
			}
			return own
		}, nil)
	}
	conf := c.prefix(".scr/app.conf")
	if err := run("SCR_CHECKPOINT_INTERVAL=3", `SCR_JOB_NAME="a\b"=c#`, "CKPT=0 TYPE=XOR SET_SIZE=4"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(conf)
	if want := "CKPT=0 TYPE=XOR SET_SIZE=4\nSCR_CHECKPOINT_INTERVAL=3\nSCR_JOB_NAME=\"a\\\\b\"=c#\n"; string(text) != want || err != nil {
		t.Errorf("app.conf is %q, %v", text, err)
	}
	cfg, _, err := config.Read(c.prefix(""))
	if err != nil || cfg.CheckpointInterval != 3 || cfg.JobName != `"a\b"=c#` {
		t.Errorf("commands read %v", err)
	}
	if err := run("SCR_LOG_DB_PASS=guess"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(conf); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a program that sets a secret: %q, %v", text, err)
	}
	if err := run("SCR_LOG_DB_PASS=guess", "SCR_FLUSH=3"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(conf); string(text) != "SCR_FLUSH=3\n" || err != nil {
		t.Errorf("beside a secret: %q, %v", text, err)
	}
	if err := run("SCR_FLUSH=2", "differs"); err == nil {
		t.Error("ranks that set different things")
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(conf); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a program that sets nothing: %v", err)
	}
}
