package session

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/test/faultfs"
	"github.com/goscr/goscr/test/sample"
)

// outage is a job, or a command, during which the power of all nodes and of the prefix
// directory fails.
type outage struct {
	name   string
	env    []string
	before func(c *cluster) // what is done before, and is durable
	// during is what the power fails in. It calls promise with the steps of which a
	// restart has to get one from then on, from the prefix directory alone.
	during func(c *cluster, promise func(steps ...int))
	may    []int // steps that a restart may get, 0: none
}

// checkpoints is a job that writes checkpoints, and promises each.
func checkpoints(list ...int) func(c *cluster, promise func(...int)) {
	return func(c *cluster, promise func(...int)) {
		c.job(four, func(s *Session, rank int) error {
			for i, step := range list {
				if err := checkpoint(s, rank, step); err != nil {
					return err
				}
				if rank == 0 {
					promise(list[i:]...)
				}
			}
			return nil
		})
	}
}

// finalized is the same for flushes in the background.
func finalized(list ...int) func(c *cluster, promise func(...int)) {
	return func(c *cluster, promise func(...int)) {
		c.job(four, func(s *Session, rank int) error {
			if err := steps(list...)(s, rank); err != nil {
				return err
			}
			if err := s.Finalize(); err != nil {
				return err
			}
			if rank == 0 {
				promise(list[len(list)-1])
			}
			return nil
		})
		c.serving.Wait()
	}
}

// scavenged copies a dataset from three of four nodes, and builds it.
func scavenged(id int) func(c *cluster, promise func(...int)) {
	return func(c *cluster, promise func(...int)) {
		warn := func(err error) { c.t.Log(err) }
		for _, node := range []string{"a", "b", "d"} {
			x := scavenge.Copy{Control: filepath.Join(c.node(node), "cntl/user/scr.job"), Prefix: c.prefix(""), ID: id, Buffer: 1000, Warn: warn}
			if _, err := x.Run(); err != nil {
				c.t.Fatal(err)
			}
		}
		if _, err := scavenge.Build(c.prefix(""), id, warn, nil); err != nil {
			c.t.Fatal(err)
		}
		promise(id)
	}
}

func none(...int) {}

var outages = []outage{
	{name: "first", env: []string{"SCR_FLUSH=1"}, during: checkpoints(1), may: []int{0, 1}},
	{name: "flush", env: []string{"SCR_FLUSH=1"}, before: func(c *cluster) { c.job(four, steps(1, 2)) }, during: checkpoints(3), may: []int{2, 3}},
	{name: "blind", env: []string{"SCR_FLUSH=1", "SCR_CRC_ON_FLUSH=0"}, before: func(c *cluster) { c.job(four, steps(1, 2)) },
		during: checkpoints(3), may: []int{2, 3}},
	{name: "compressed", env: []string{"SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd"}, before: func(c *cluster) { c.job(four, steps(51)) },
		during: checkpoints(52), may: []int{51, 52}},
	{name: "threads", env: []string{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD"},
		before: func(c *cluster) { finalized(1)(c, none) }, during: finalized(2, 3), may: []int{1, 2, 3}},
	{name: "daemon", env: []string{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON"},
		before: func(c *cluster) { finalized(1)(c, none) }, during: finalized(2, 3), may: []int{1, 2, 3}},
	{name: "bypass", env: []string{"SCR_CACHE_BYPASS=1"}, before: func(c *cluster) { c.job(four, steps(1, 2)) }, during: checkpoints(3), may: []int{2, 3}},
	{name: "deletion", env: []string{"SCR_FLUSH=1", "SCR_PREFIX_SIZE=1"}, before: func(c *cluster) { c.job(four, steps(1, 2)) },
		during: checkpoints(3, 4), may: []int{2, 3, 4}},
	{name: "delete", env: []string{"SCR_FLUSH=1"}, before: func(c *cluster) { c.job(four, steps(1, 2, 3)) },
		during: func(c *cluster, promise func(...int)) {
			c.job(four, func(s *Session, rank int) error { return s.Delete(name(3)) })
			promise(2)
		}, may: []int{2, 3}},
	{name: "scavenge", env: []string{"SCR_FLUSH=0"}, before: func(c *cluster) {
		c.set("SCR_FLUSH=1")
		c.job(four, steps(1))
		c.set("SCR_FLUSH=0")
		c.job(four, steps(2))
	}, during: scavenged(2), may: []int{1, 2}},
	{name: "restart", env: []string{"SCR_FLUSH=1"}, before: func(c *cluster) {
		c.job(four, steps(1, 2))
		c.lose(four...)
	}, during: func(c *cluster, promise func(...int)) {
		promise(2)
		c.job(four, restarts(2))
	}, may: []int{2}},
	{name: "cache", env: []string{"SCR_FLUSH=2"}, before: func(c *cluster) { c.job(four, steps(1, 2)) }, during: func(c *cluster, _ func(...int)) {
		checkpoints(3)(c, none)
	}, may: []int{1, 2, 3}},
	{name: "single", env: []string{"SCR_FLUSH=2", "SCR_COPY_TYPE=SINGLE"}, before: func(c *cluster) { c.job(four, steps(1, 2)) },
		during: func(c *cluster, _ func(...int)) { checkpoints(3)(c, none) }, may: []int{1, 2, 3}},
}

// The power fails after any change of a file or of a name, and after any fsync: what
// was not synced is there in part. What a program is offered then has the bytes that were
// written, what the index has as complete is complete, and what had been flushed before
// is there.
//
// A campaign cuts at every change, in every way in which what is not durable gets lost,
// or as many times in each job as the environment variable POWER_CUTS says.
func TestPower(t *testing.T) {
	t.Parallel()
	most := map[sample.Size]int{sample.Quick: 1, sample.Drawn: 2, sample.All: 4}[sample.Now()]
	if sample.Now() == sample.Campaign {
		most, _ = strconv.Atoi(os.Getenv("POWER_CUTS")) // 0: no limit
	}
	for _, o := range sample.Of(t, outages, 2, len(outages)) {
		t.Run(o.name, func(t *testing.T) {
			c := newCluster(t, o.env...)
			c.at(filepath.Join(c.root, "machine"))
			if err := os.Mkdir(c.root, 0o700); err != nil {
				t.Fatal(err)
			}
			if o.before != nil {
				o.before(c)
			}
			backing := c.root + ".backing"
			if err := os.Rename(c.root, backing); err != nil {
				t.Fatal(err)
			}
			m := faultfs.Of(t, backing, c.root, faultfs.Options{Record: true})
			type promise struct {
				at    int
				steps []int
			}
			var promises []promise
			o.during(c, func(steps ...int) { promises = append(promises, promise{m.Count(), steps}) })
			total := m.Count()
			m.PowerOff()

			type cut struct {
				at   int
				seed uint64
			}
			var cuts []cut
			for at := range total + 1 {
				for way := range uint64(faultfs.Ways) {
					cuts = append(cuts, cut{at, way}, cut{at, way + faultfs.Ways*uint64(1+at)})
				}
			}
			if most > 0 && most < len(cuts) {
				sample.Rand(t).Shuffle(len(cuts), func(i, j int) { cuts[i], cuts[j] = cuts[j], cuts[i] })
				cuts = append(cuts[:most:most], cut{total, 0}) // at the end too
			}
			failed := 0
			for _, at := range cuts {
				durable := o.may
				for _, p := range promises {
					if at.at >= p.at {
						durable = p.steps
					}
				}
				for lost, may := range map[bool][]int{true: durable, false: o.may} { // the cache is preferred
					m.Survivors(at.at, at.seed, m.Dir)
					c.booted = time.Now()
					if err := c.afterOutage(lost, may); err != nil {
						t.Errorf("power cut at %d of %d, seed %d, caches lost: %v: %v\n%s", at.at, total, at.seed, lost, err, c.said())
						failed++
						break
					}
				}
				if failed > 3 {
					t.Fatal("...")
				}
			}
			t.Logf("%d cuts in %d changes and syncs", len(cuts), total)
		})
	}
}

// sameBytes compares what a file holds with what was written. Its mode and times may have
// been lost on a file system without a journal.
func sameBytes(path string, f file) error {
	data, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(data, f.data) {
		err = fmt.Errorf("%s: other bytes than were written", path)
	}
	return err
}

// afterOutage starts a job after a power failure, which has to be offered one of some
// steps, with all of its bytes, and be able to continue.
func (c *cluster) afterOutage(lost bool, may []int) error {
	if lost {
		c.lose(four...)
	}
	for _, e := range c.index() {
		if !e.Complete || e.Compressed() {
			continue
		}
		for rank := range four {
			for _, f := range contents(e.ID, rank) {
				if err := sameBytes(c.prefix(f.name), f); err != nil {
					return fmt.Errorf("the index has %s as complete: %w", e.Name, err)
				}
			}
		}
	}
	return c.try(four, func(s *Session, rank int) error {
		got, err := offered(s)
		if err != nil {
			return err
		}
		if got == "" && slices.Contains(may, 0) {
			return nil
		}
		for _, step := range may {
			if got == name(step) {
				return read(s, rank, step)
			}
		}
		return fmt.Errorf("offered %q to restart from, want one of %v", got, may)
	})
}
