package scr

import (
	"os"
	"strings"
	"testing"
)

// A checkpoint of another input is not offered, wherever it is, and a job says so; SCR_CURRENT
// restarts from it all the same.
func TestInput_OfCheckpoints(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"cache", "prefix", "bypass"} {
		t.Run(where, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=3", "SCR_CHECKPOINT_INTERVAL=1")
			if where == "bypass" {
				c.set("SCR_CACHE_BYPASS=1")
			}
			input, moved := c.root+"/input", c.root+"/moved"
			c.set("SCR_JOB_INPUT=" + input + " " + moved)
			content := func(path, text string) { c.must(os.WriteFile(path, []byte(text), 0o600)) }
			lose := func() {
				if where != "cache" {
					c.lose(four...)
				}
			}
			content(input, "mesh")
			content(moved, "model")
			c.job(four, steps(1, 2))
			lose()
			c.job(four, restarts(2))

			content(input, "other mesh")
			lose()
			c.job(four, restarts(0))
			c.says("checkpoint ckpt.2 is not offered: its job read other input")
			c.says("checkpoint ckpt.1 is not offered: its job read other input")
			c.set("SCR_CURRENT=ckpt.1")
			c.job(four, func(s *Session, rank int) error { return restartAt(s, rank, 1) })
			c.set("SCR_CURRENT=")

			// The same input at another place is the same.
			content(input, "mesh")
			c.must(os.Rename(moved, c.root+"/elsewhere"))
			c.set("SCR_JOB_INPUT=" + input + " " + c.root + "/elsewhere")
			lose()
			c.job(four, restarts(1))

			// A job that names no input restarts from any checkpoint.
			content(input, "other mesh")
			c.set("SCR_JOB_INPUT=")
			lose()
			c.job(four, restarts(1))
		})
	}
}

func TestInput_ThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.set("SCR_JOB_INPUT=" + c.root + "/none")
	if err := c.try(four, steps(1)); err == nil || !strings.Contains(err.Error(), "SCR_JOB_INPUT") || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
}
