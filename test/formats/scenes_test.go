package formats

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// ranks is the size of the jobs whose files the corpus has, one rank on a node.
const ranks = 4

// A site is a directory that holds what a job sees: the prefix directory, and the
// storage of its nodes, node0 to node3.
type site struct {
	t    testing.TB
	root string
	env  map[string]string
}

// newSite returns an empty site, for jobs with these parameters, NAME=value each.
func newSite(t testing.TB, env ...string) *site {
	t.Helper()
	base := "/dev/shm" // where syncing takes no time
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	root, err := os.MkdirTemp(base, "goscr-formats-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	s := &site{t: t, root: root, env: map[string]string{
		"SCR_USER_NAME": "user", "SCR_JOB_ID": "job", "SCR_JOB_NAME": "corpus", "SCR_CLUSTER_NAME": "cluster",
		"SCR_CHECKPOINT_INTERVAL": "1", "SCR_DEBUG": "1", "SCR_FLUSH": "0", "SCR_CACHE_SIZE": "2", "SCR_RECORD": "0",
		"SCR_MPI_BUF_SIZE": "64", "SCR_FILE_BUF_SIZE": "256",
	}}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		s.env[name] = value
	}
	s.env["SCR_PREFIX"], s.env["PWD"] = s.prefix(""), s.root
	must(t, os.MkdirAll(s.prefix(""), 0o777))
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) prefix(name string) string { return filepath.Join(s.root, "prefix", name) }

func (s *site) node(i int) string { return filepath.Join(s.root, fmt.Sprint("node", i)) }

// control is the control directory of a node.
func (s *site) control(i int) string { return filepath.Join(s.node(i), "cntl/user/scr.job") }

// parameters are those that processes on a node see.
func (s *site) parameters(node int) map[string]string {
	env := maps.Clone(s.env)
	env["SCR_NODE_NAME"] = fmt.Sprint("node", node)
	env["SCR_CACHE_BASE"] = filepath.Join(s.node(node), "cache")
	env["SCR_CNTL_BASE"] = filepath.Join(s.node(node), "cntl")
	return env
}

// job runs a program of n ranks. It ends as if it were killed, unless the program
// finalizes its session.
func (s *site) job(n int, settings string, program func(c *session.Session, rank int) error) {
	s.t.Helper()
	lines := &lockedBuffer{}
	_, err := local.Run(n, local.Options{}, func(world mpi.Comm) error {
		env := s.parameters(world.Rank())
		opt := session.Options{Log: lines, Environ: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		}}
		if settings != "" {
			opt.Settings = new(session.Settings)
			for line := range strings.FieldsSeq(settings) {
				if _, _, err := opt.Settings.Config(line); err != nil {
					return err
				}
			}
		}
		c, err := session.Init(world, opt)
		if err != nil {
			return err
		}
		return program(c, world.Rank())
	})
	if err != nil {
		s.t.Fatalf("%v\n%s", err, lines.String())
	}
}

// lockedBuffer takes the lines of all ranks of a job.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// command runs a command on a node and returns what it prints.
func (s *site) command(node int, argv ...string) string {
	s.t.Helper()
	out, err := s.try(node, argv...)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return out
}

func (s *site) try(node int, argv ...string) (string, error) {
	s.t.Helper()
	cmd := exec.Command(tool, argv[1:]...)
	cmd.Args[0], cmd.Dir = argv[0], s.root
	cmd.Env = []string{"TZ=UTC", "PATH=" + os.Getenv("PATH"), "HOME=" + s.root}
	for name, value := range s.parameters(node) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tool is the binary that has all commands.
var tool string

func TestMain(m *testing.M) {
	os.Exit(withTool(m))
}

// withTool builds the commands, which are called from a process of their own, as
// they are by users.
func withTool(m *testing.M) int {
	dir, err := os.MkdirTemp("", "goscr-formats-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	tool = filepath.Join(dir, "scr")
	cmd := exec.Command("go", "build", "-o", tool, "github.com/goscr/goscr/cmd/scr")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build ./cmd/scr: %v\n%s", err, out)
		return 1
	}
	os.Setenv("TZ", "UTC") // of times in logs and in the index
	time.Local = time.UTC
	return m.Run()
}

// epoch is when everything in the corpus was written.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// name is the name of a checkpoint.
func name(step int) string { return fmt.Sprint("ckpt.", step) }

// files are what a rank writes in a step: two on rank 1, none on rank 2 of an odd
// step, and of other sizes on other ranks.
func files(step, rank int) map[string][]byte {
	f := map[string][]byte{}
	if rank != 2 || step%2 == 0 {
		f[fmt.Sprintf("%s/rank_%d.dat", name(step), rank)] = noise(step, rank, 300+40*rank)
	}
	if rank == 1 {
		f[name(step)+"/more/of rank 1"] = noise(step, rank, 17)
	}
	return f
}

// noise is bytes that look like nothing, and are the same in every version of Go.
func noise(step, rank, n int) []byte {
	h := fnv.New64a()
	fmt.Fprint(h, step, rank)
	state := h.Sum64()
	data := make([]byte, n)
	for i := range data {
		state = state*6364136223846793005 + 1442695040888963407
		data[i] = byte(state >> 56)
	}
	return data
}

// begin begins a dataset and writes the files of a rank.
func begin(c *session.Session, name string, flags session.Flags, files map[string][]byte) error {
	if err := c.StartOutput(name, flags); err != nil {
		return err
	}
	return c.Agree(write(c, files))
}

func write(c *session.Session, files map[string][]byte) error {
	for _, file := range slices.Sorted(maps.Keys(files)) { // as the journal has them
		path, err := routed(c, file)
		if data := files[file]; err == nil {
			err = errors.Join(os.WriteFile(path, data, 0o640), os.Chmod(path, 0o640), os.Chtimes(path, epoch, epoch))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func routed(c *session.Session, file string) (string, error) {
	prefix, _, err := c.Query("SCR_PREFIX")
	if err != nil {
		return "", err
	}
	return c.Route(filepath.Join(prefix, file))
}

func checkpoint(c *session.Session, rank, step int) error {
	if err := begin(c, name(step), session.Checkpoint, files(step, rank)); err != nil {
		return err
	}
	return c.CompleteOutput(true)
}

// A scene is a job, or a few, that leave files of some kinds.
type scene struct {
	kind  string // the name of its directory in the corpus
	about string
	play  func(t testing.TB) *site
}

// scenes are all scenes whose files the corpus of this version has.
var scenes = []scene{
	{"job", "a job of four ranks, killed while it wrote its third checkpoint; the second is flushed", playJob},
	{"partner", "the cache of a job with SCR_COPY_TYPE=PARTNER", playScheme("PARTNER")},
	{"rs", "the cache of a job with SCR_COPY_TYPE=RS", playScheme("RS")},
	{"single", "the cache of a job with SCR_COPY_TYPE=SINGLE", playScheme("SINGLE")},
	{"scavenged", "what scr_copy brought home from three of four nodes", playScavenged},
	{"flushing", "a job with SCR_FLUSH_TYPE=DAEMON, killed before scr_transfer began to copy", playFlushing},
	{"restarting", "a job killed while it read a checkpoint, and then all conditions to halt", playRestarting},
	{"condemned", "the same, after scr_run has found that it died of that checkpoint", playCondemned},
	{"settings", "a job that has set parameters itself", playSettings},
	{"bypass", "a job with SCR_CACHE_BYPASS=1, whose ranks write one file together, that has ended", playBypass},
	{"compressed", "a job with SCR_FLUSH_COMPRESS=zstd, that has ended", playCompressed},
	{"replaced", "a job that writes some file names in every checkpoint again; the second of two is flushed", playReplaced},
	{"stores", "the caches of a job with a store of its own on each node, and one that all nodes share", playStores},
	{"log", "the log of a job, as text and as an SQLite database", playLog},
}

func playJob(t testing.TB) *site {
	s := newSite(t, "SCR_FLUSH=2")
	s.job(ranks, "", func(c *session.Session, rank int) error {
		for step := 1; step <= 2; step++ {
			if err := checkpoint(c, rank, step); err != nil {
				return err
			}
		}
		return begin(c, name(3), session.Checkpoint|session.Output, files(3, rank))
	})
	return s
}

func playScheme(scheme string) func(t testing.TB) *site {
	return func(t testing.TB) *site {
		s := newSite(t, "SCR_COPY_TYPE="+scheme)
		s.job(ranks, "", func(c *session.Session, rank int) error { return checkpoint(c, rank, 2) })
		return s
	}
}

func playScavenged(t testing.TB) *site {
	s := newSite(t)
	s.job(ranks, "", func(c *session.Session, rank int) error { return checkpoint(c, rank, 2) })
	for _, node := range []int{0, 1, 3} {
		s.command(node, "scr_copy", "--id", "1", "node2")
	}
	for node := range ranks {
		must(t, os.RemoveAll(s.node(node)))
	}
	return s
}

// playFlushing has a scr_transfer that does nothing.
func playFlushing(t testing.TB) *site {
	s := newSite(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON")
	idle := filepath.Join(t.TempDir(), "scr_transfer")
	must(t, os.WriteFile(idle, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	t.Setenv("PATH", filepath.Dir(idle)+":"+os.Getenv("PATH"))
	s.job(ranks, "", func(c *session.Session, rank int) error { return checkpoint(c, rank, 2) })
	return s
}

func playRestarting(t testing.TB) *site {
	s := newSite(t, "SCR_FLUSH=1")
	s.job(ranks, "", func(c *session.Session, rank int) error {
		if err := checkpoint(c, rank, 2); err != nil {
			return err
		}
		return c.Finalize()
	})
	for node := range ranks {
		must(t, os.RemoveAll(s.node(node)))
	}
	s.job(ranks, "", func(c *session.Session, rank int) error {
		if _, ok, err := c.HaveRestart(); err != nil || !ok {
			return fmt.Errorf("no checkpoint (%v)", err)
		}
		_, err := c.StartRestart()
		return err
	})
	for node := range ranks {
		must(t, os.RemoveAll(s.node(node)))
	}
	s.command(0, "scr_halt_cntl", "--dir", s.prefix(""), "-c", "7", "-a", "1767323045", "-b", "1767326645", "-s", "1200", "-r", "maintenance")
	return s
}

func playCondemned(t testing.TB) *site {
	s := playRestarting(t)
	_, err := prefix.Condemn(s.prefix(""), epoch)
	must(t, err)
	must(t, os.Remove(s.prefix(".scr/halt.scr")))
	return s
}

// playSettings has the environment turn off the log, which the program turns on.
func playSettings(t testing.TB) *site {
	s := newSite(t, "SCR_LOG_ENABLE=0")
	s.job(ranks, "SCR_LOG_ENABLE=1 SCR_LOG_TXT_ENABLE=1", func(c *session.Session, rank int) error { return nil })
	for node := range ranks {
		must(t, os.RemoveAll(s.node(node)))
	}
	return s
}

// sharedFile is a file of which each rank writes a part.
const sharedFile = "ckpt.2/all"

func part(rank int) []byte { return noise(2, 10+rank, 25) }

func writePart(c *session.Session, rank int) error {
	path, err := routed(c, sharedFile)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(part(rank), int64(25*rank))
	return errors.Join(err, f.Chmod(0o640), f.Close())
}

func playBypass(t testing.TB) *site {
	s := newSite(t, "SCR_CACHE_BYPASS=1")
	s.job(ranks, "", func(c *session.Session, rank int) error {
		if err := begin(c, name(2), session.Checkpoint, files(2, rank)); err != nil {
			return err
		}
		if err := c.Agree(writePart(c, rank)); err != nil {
			return err
		}
		// The time of a file that all have written is recorded.
		if err := c.Agree(os.Chtimes(s.prefix(sharedFile), epoch, epoch)); err != nil {
			return err
		}
		return errors.Join(c.CompleteOutput(true), c.Finalize())
	})
	for node := range ranks {
		must(t, os.RemoveAll(s.node(node)))
	}
	return s
}

// playCompressed has files that get smaller, but for those of rank 1.
func playCompressed(t testing.TB) *site {
	s := newSite(t, "SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd")
	s.job(ranks, "", func(c *session.Session, rank int) error {
		if err := begin(c, name(2), session.Checkpoint, compressible(rank)); err != nil {
			return err
		}
		if err := c.CompleteOutput(true); err != nil {
			return err
		}
		return c.Finalize()
	})
	for node := range ranks {
		must(t, os.RemoveAll(s.node(node)))
	}
	return s
}

func compressible(rank int) map[string][]byte {
	f := files(2, rank)
	if rank != 1 {
		f[fmt.Sprintf("%s/rank_%d.dat", name(2), rank)] = []byte(strings.Repeat(fmt.Sprint("all alike ", rank), 100))
	}
	return f
}

// playReplaced has files of one name in each step, and others: of the older checkpoint
// some files are left.
func playReplaced(t testing.TB) *site {
	s := newSite(t, "SCR_FLUSH=1")
	s.job(ranks, "", func(c *session.Session, rank int) error {
		for step := 1; step <= 2; step++ {
			of := map[string][]byte{
				fmt.Sprint("restart.dat.", rank):            noise(step, rank, 30),
				fmt.Sprintf("field/step_%d.%d", step, rank): noise(step, 10+rank, 20),
			}
			if err := begin(c, name(step), session.Checkpoint, of); err != nil {
				return err
			}
			if err := c.CompleteOutput(true); err != nil {
				return err
			}
		}
		return c.Finalize()
	})
	for node := range ranks {
		must(t, os.RemoveAll(s.node(node)))
	}
	return s
}

// setStores sets what the configuration of playStores takes from the environment. The id of the
// allocation is not the job's.
func (s *site) setStores() {
	s.env["SLURM_JOB_ID"] = "77"
	s.env["BURST"] = filepath.Join(s.root, "burst")
}

func playStores(t testing.TB) *site {
	const ownStore, sharedStore = "$SCR_CACHE_BASE/own", "$BURST"
	s := newSite(t)
	s.setStores()
	must(t, os.WriteFile(s.prefix(".scrconf"), []byte("SCR_COPY_TYPE=FILE\n"+
		"STORE="+ownStore+" COUNT=2\nSTORE="+sharedStore+" COUNT=2 GROUP=WORLD\n"+
		"CKPT=0 INTERVAL=1 TYPE=XOR STORE="+ownStore+"\nCKPT=1 INTERVAL=2 STORE="+sharedStore+"\n"), 0o640))
	s.job(ranks, "", func(c *session.Session, rank int) error {
		return errors.Join(checkpoint(c, rank, 1), checkpoint(c, rank, 2))
	})
	return s
}

func playLog(t testing.TB) *site {
	s := newSite(t, "SCR_LOG_ENABLE=1", "SCR_LOG_TXT_ENABLE=1", "SCR_LOG_SYSLOG_ENABLE=0", "SCR_LOG_DB_ENABLE=1")
	must(t, os.Mkdir(s.prefix(".scr"), 0o777))
	s.command(0, "scr_log_event", "-T", "NODE_FAIL", "-N", `all of "node 3"`, "-D", "7", "-n", "ckpt.7", "-S", "1767323045", "-L", "1.5")
	s.command(0, "scr_log_event", "-T", "RUN_START")
	s.command(0, "scr_log_transfer", "-T", "FLUSH", "-X", "/cache", "-Y", "/prefix", "-D", "7", "-S", "1767323045", "-L", "2", "-B", "4096", "-F", "5")
	return s
}
