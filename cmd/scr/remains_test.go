package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/remains"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/test/scavengetest"
	"github.com/goscr/goscr/test/storagetest"
)

// left returns what scr_du lists.
func left(t *testing.T, argv ...string) (list []leftJob) {
	t.Helper()
	out, _ := run(t, 0, append([]string{"scr_du", "--json"}, argv...)...)
	must(t, json.Unmarshal([]byte(out), &list))
	return list
}

// ended is a job that has written checkpoints and ended without flushing them.
func ended(c *scavengetest.Cluster, nodes []string, steps ...int) {
	c.Job(nodes, func(s *session.Session, rank int) error {
		for _, step := range steps {
			if err := c.Output(step, session.Checkpoint)(s, rank); err != nil {
				return err
			}
		}
		return s.Finalize()
	})
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestClean(t *testing.T) {
	c := scavengetest.New(t)
	ended(c, scavengetest.Four, 1, 2)
	node := scavengetest.Four[0]
	base := "--base=" + c.Node(node)
	list := left(t, base)
	if len(list) != 1 || list[0].User != "user" || list[0].ID != "job" || list[0].Alive || list[0].Bytes < 1024 || time.Since(list[0].Changed) > time.Hour ||
		len(list[0].Datasets) != 2 || list[0].Datasets[0].Safe != "" || !strings.Contains(list[0].Why, "datasets 1 (ckpt.1), 2 (ckpt.2)") {
		t.Fatalf("%+v", list)
	}
	if out, said := run(t, 0, "scr_du", base); !strings.Contains(out, "ended") || !strings.Contains(out, "  no ") || !strings.Contains(said, c.Prefix()) {
		t.Errorf("%s%s", out, said)
	}

	// What is nowhere else stays.
	if _, said := run(t, 1, "scr_clean", base); !strings.Contains(said, "scr_postrun") || !there(c.Control(node)) {
		t.Error(said)
	}
	for _, n := range scavengetest.Four {
		run(t, 0, "scr_copy", "--cntldir", c.Control(n), "-p", c.Prefix(), "--id", "2")
	}
	run(t, 0, "scr_index", "-p", c.Prefix(), "--build", "2")
	if d := left(t, base)[0].Datasets; d[0].Safe != remains.Superseded || d[1].Safe != remains.InPrefix {
		t.Errorf("%+v", d)
	}

	// What is alive stays, even by force.
	for _, name := range []string{"lock", "transfer.lock", "copy.lock"} {
		l, err := lock.Try(filepath.Join(c.Control(node), name), lock.Exclusive)
		must(t, err)
		if !left(t, base)[0].Alive {
			t.Errorf("with %s held it does not run", name)
		}
		if _, said := run(t, 1, "scr_clean", "--force", base); !strings.Contains(said, "running") || !there(c.Cached(node, 2, "")) {
			t.Error(said)
		}
		l.Release()
	}

	// What the options do not select stays.
	for _, option := range []string{"--user=other", "--jobid=other", "--older-than=1h"} {
		run(t, 0, "scr_clean", option, base)
	}
	if out, _ := run(t, 0, "scr_clean", "-n", base); !strings.Contains(out, "would be removed") || !there(c.Cached(node, 2, "")) {
		t.Error(out)
	}
	old := time.Now().Add(-50 * time.Hour)
	must(t, filepath.Walk(c.Control(node), func(path string, _ os.FileInfo, err error) error {
		must(t, err)
		return os.Chtimes(path, old, old)
	}))
	if out, _ := run(t, 0, "scr_clean", "--older-than", "2d", "--jobid", "job", "--user", "user", base); !strings.Contains(out, "job job of user is removed") ||
		there(c.Control(node)) || !there(filepath.Dir(c.Control(node))) {
		t.Error(out)
	}
	if list := left(t, base); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	for _, name := range []string{"scr_clean", "scr_du"} {
		if _, said := run(t, 0, name, "--jobid", "jbo", base); !strings.Contains(said, "no job with the id jbo has left anything") {
			t.Error(said)
		}
	}
	run(t, 2, "scr_clean", "--older-than", "soon")
	run(t, 2, "scr_clean", "--older-than", "200000d") // more than a time can be
}

// It waits for scr_run, which may copy what is on the node, but no longer than it may.
func TestClean_Waits(t *testing.T) {
	c := scavengetest.New(t)
	ended(c, scavengetest.Four, 1)
	node := scavengetest.Four[0]
	held, err := lock.Try(request.LoopPath(c.Prefix()), lock.Exclusive)
	must(t, err)
	cleaned := make(chan string)
	go func() {
		out, said := run(t, 0, "scr_clean", "--force", "--wait", "1h", "--base="+c.Node(node))
		cleaned <- out + said
	}()
	copies, err := lock.Try(filepath.Join(c.Control(node), "copy.lock"), lock.Exclusive)
	must(t, err)
	select {
	case said := <-cleaned:
		t.Errorf("it has not waited: %s", said)
	case <-time.After(time.Second):
	}
	copies.Release()
	held.Release()
	if said := <-cleaned; !strings.Contains(said, "job job of user is removed") || there(c.Control(node)) {
		t.Error(said)
	}

	node = scavengetest.Four[1]
	held, err = lock.Try(request.LoopPath(c.Prefix()), lock.Exclusive)
	must(t, err)
	defer held.Release()
	if out, _ := run(t, 0, "scr_clean", "--force", "--wait", "1s", "--base="+c.Node(node)); !strings.Contains(out, "job job of user is removed") {
		t.Error(out)
	}
}

// Programs with the same job id, but other prefix directories, have used the same caches: each dataset is named with its
// own prefix directory, and the run of each is waited for.
func TestClean_SeveralPrefixes(t *testing.T) {
	c := scavengetest.New(t)
	ended(c, []string{"a"}, 1, 2)
	other := filepath.Join(c.Root(), "other")
	must(t, os.MkdirAll(other, 0o777))
	scavengetest.At(t, c.Root(), "SCR_PREFIX="+other).Job([]string{"a"}, func(s *session.Session, _ int) error {
		must(t, s.StartOutput("third", session.Checkpoint))
		path, err := s.Route(filepath.Join(other, "third"))
		must(t, err)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, s.CompleteOutput(true))
		return s.Finalize()
	})
	base := "--base=" + c.Node("a")
	want := fmt.Sprintf("datasets 1 (ckpt.1), 2 (ckpt.2): not in the prefix directory %s; dataset 3 (third): not in the prefix directory %s", c.Prefix(), other)
	if list := left(t, base); len(list) != 1 || list[0].Why != want {
		t.Fatalf("%+v, want %s", list, want)
	}
	if _, said := run(t, 0, "scr_du", base); !strings.Contains(said, want) {
		t.Error(said)
	}
	if _, said := run(t, 1, "scr_clean", base); !strings.Contains(said, want) {
		t.Error(said)
	}
	cleaned := make(chan string)
	var runs []*lock.Lock
	for _, dir := range []string{c.Prefix(), other} {
		held, err := lock.Try(request.LoopPath(dir), lock.Exclusive)
		must(t, err)
		runs = append(runs, held)
	}
	go func() {
		out, said := run(t, 0, "scr_clean", "--force", "--wait", "1h", base)
		cleaned <- out + said
	}()
	for _, held := range []*lock.Lock{runs[1], runs[0]} { // that of the newest dataset ends first
		select {
		case said := <-cleaned:
			t.Fatalf("it has not waited: %s", said)
		case <-time.After(time.Second):
		}
		held.Release()
	}
	if said := <-cleaned; !strings.Contains(said, "job job of user is removed") || there(c.Control("a")) {
		t.Error(said)
	}
}

// A job's own stores are found although its filemaps cannot be read, and by the id of its
// allocation.
func TestClean_OwnStores(t *testing.T) {
	own := filepath.Join(storagetest.Base(), fmt.Sprint("goscr-test-own-", os.Getpid()))
	defer os.RemoveAll(own)
	c := scavengetest.New(t, "SLURM_JOB_ID=77")
	must(t, os.MkdirAll(c.Prefix(), 0o777))
	must(t, os.WriteFile(c.Path(".scrconf"), []byte("SCR_COPY_TYPE=FILE\nSTORE="+own+" COUNT=1\nCKPT=0 INTERVAL=1 STORE="+own+" TYPE=SINGLE\n"), 0o666))
	ended(c, []string{"a"}, 1)
	base := "--base=" + c.Node("a")
	mine := filepath.Join(own, "user/scr.job")
	list := left(t, base, "--jobid", "77")
	if len(list) != 1 || list[0].Allocation != "77" || len(list[0].Dirs) != 2 || list[0].Dirs[1] != mine || len(list[0].Datasets) != 1 {
		t.Fatalf("%+v", list)
	}
	maps, err := filepath.Glob(filepath.Join(c.Control("a"), filemap.Pattern))
	must(t, err)
	for _, path := range maps {
		must(t, os.WriteFile(path, []byte("nonsense"), 0o600))
	}
	if _, said := run(t, 1, "scr_clean", base); !strings.Contains(said, "not clear") || !there(mine) {
		t.Error(said)
	}
	run(t, 0, "scr_clean", "--force", base)
	if there(mine) || there(c.Control("a")) {
		t.Error("something is left")
	}
}

// Without its control directory nothing shows whether a job runs.
func TestClean_WithoutControlDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "user/scr.job/scr.dataset.1")
	must(t, os.MkdirAll(dir, 0o700))
	base := "--base=" + filepath.Dir(filepath.Dir(filepath.Dir(dir)))
	run(t, 1, "scr_clean", "--force", base)
	run(t, 1, "scr_clean", "--jobid", "job", base)
	if !there(dir) {
		t.Fatal("it is removed")
	}
	run(t, 0, "scr_clean", "--force", "--jobid", "job", base)
	if there(filepath.Dir(dir)) {
		t.Error("it is there")
	}
}

// SCR_CNTL_BASE was another in an earlier run of the job: all of its control directories count.
func TestClean_SeveralControlDirectories(t *testing.T) {
	c := scavengetest.New(t)
	ended(c, []string{"a"}, 1)
	run(t, 0, "scr_copy", "--cntldir", c.Control("a"), "-p", c.Prefix(), "--id", "1")
	run(t, 0, "scr_index", "-p", c.Prefix(), "--build", "1")
	other := filepath.Join(t.TempDir(), "user/scr.job")
	must(t, os.MkdirAll(other, 0o700))
	bases := []string{"--base=" + c.Node("a"), "--base=" + filepath.Dir(filepath.Dir(other))}
	for _, control := range []string{c.Control("a"), other} {
		l, err := lock.Try(filepath.Join(control, "lock"), lock.Exclusive)
		must(t, err)
		for _, order := range [][]string{bases, {bases[1], bases[0]}} {
			if list := left(t, order...); len(list) != 1 || !list[0].Alive || len(list[0].Dirs) != 2 {
				t.Errorf("%s: %+v", control, list)
			}
			if _, said := run(t, 1, append([]string{"scr_clean", "--force"}, order...)...); !strings.Contains(said, "running") {
				t.Error(said)
			}
		}
		l.Release()
	}
	if run(t, 0, append([]string{"scr_clean"}, bases...)...); there(other) || there(c.Control("a")) {
		t.Error("something is left")
	}
}

// A store of all nodes in the place of the control directory, on a machine of one node: the
// locks of the job are in it.
func TestClean_ControlDirectoryInASharedStore(t *testing.T) {
	c := scavengetest.New(t)
	must(t, os.MkdirAll(c.Prefix(), 0o777))
	must(t, os.WriteFile(c.Path(".scrconf"), []byte("STORE="+c.Node("a")+" GROUP=WORLD\n"), 0o666))
	ended(c, []string{"a"}, 1)
	base := "--base=" + c.Node("a")
	if list := left(t, base); len(list) != 1 || len(list[0].Dirs) != 1 || len(list[0].Shared) != 0 || list[0].Datasets[0].Safe != "" {
		t.Fatalf("%+v", list)
	}
	if _, said := run(t, 1, "scr_clean", base); !strings.Contains(said, "dataset 1 (ckpt.1)") || !there(c.Control("a")) {
		t.Error(said)
	}
}

// A directory of something else below a user's, whose name begins like that of a job, stays.
func TestClean_NotOfGoscr(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "project/scr.git/refs")
	must(t, os.MkdirAll(dir, 0o700))
	run(t, 0, "scr_clean", "--force", "--jobid", "git", "--base="+filepath.Dir(filepath.Dir(filepath.Dir(dir))))
	if !there(dir) {
		t.Error("it is removed")
	}
}

// Root's command works with the rights of the user: a list of a user's that names the
// directory of another does no harm.
func TestClean_AsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can clean up for others")
	}
	const uid = 65534
	c := scavengetest.New(t)
	ended(c, []string{"a"}, 1)
	foreign := filepath.Join(c.Root(), "foreign/user/scr.job")
	must(t, os.MkdirAll(foreign, 0o700))
	must(t, filemap.Stores{Dirs: map[string]bool{foreign: false}}.Write(c.Control("a")))
	for _, dir := range []string{c.Root(), filepath.Dir(c.Node("a")), c.Node("a"), c.Prefix()} {
		must(t, os.Chmod(dir, 0o755))
	}
	must(t, filepath.Walk(filepath.Join(c.Node("a"), "user"), func(path string, _ os.FileInfo, err error) error {
		must(t, err)
		return os.Lchown(path, uid, uid)
	}))
	program := filepath.Join(c.Root(), "program") // which the user can execute, unlike that of the test
	self, err := os.Executable()
	must(t, err)
	data, err := os.ReadFile(self)
	must(t, err)
	must(t, os.WriteFile(program, data, 0o755))
	as := func(argv ...string) string {
		cmd := exec.Command(program, argv[1:]...)
		cmd.Args[0], cmd.Env = argv[0], append(os.Environ(), "SCR_PREFIX="+c.Prefix())
		out, _ := cmd.CombinedOutput() // the status is in what it says
		return string(out)
	}
	base := "--base=" + c.Node("a")
	if out := as("scr_du", base); !strings.Contains(out, "user  job") || !strings.Contains(out, "dataset 1 (ckpt.1)") {
		t.Error(out)
	}
	if out := as("scr_clean", base); !strings.Contains(out, "stays: dataset 1") || !there(c.Control("a")) {
		t.Error(out)
	}
	if out := as("scr_clean", "--force", "--older-than", "2d", base); strings.Contains(out, "is removed") || !there(c.Control("a")) {
		t.Error(out)
	}
	if out := as("scr_clean", "--force", "--older-than", "0s", base); !strings.Contains(out, "is removed") || there(c.Control("a")) || !there(foreign) {
		t.Error(out)
	}
}
