package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/test/oldtest"
	"github.com/goscr/goscr/test/scavengetest"
)

// expect runs a command line of which the output is known.
func expect(t *testing.T, status int, want string, argv ...string) {
	t.Helper()
	if out, _ := run(t, status, argv...); out != want {
		t.Errorf("%q writes %q, want %q", argv, out, want)
	}
}

func TestFlushFile(t *testing.T) {
	c := scavengetest.New(t, "SCR_CACHE_SIZE=6")
	c.Job(scavengetest.Four, func(s *session.Session, rank int) error {
		for step, flags := range []session.Flags{1: session.Checkpoint, 2: session.Output, 3: session.Checkpoint | session.Output, 4: session.Checkpoint} {
			if step > 0 {
				if err := c.Output(step, flags)(s, rank); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for _, dir := range []string{c.Prefix(), c.Path(".scr")} {
		for _, test := range []struct {
			argv   string
			status int
			out    string
		}{
			{"--latest", 0, "4\n"}, {"--list-ckpt", 0, "4 3 1\n"}, {"--list-ckpt --before 4", 0, "3 1\n"}, {"--list-ckpt --before 1", 1, ""},
			{"--list-output", 0, "2 3\n"}, {"--list-output --before 3", 0, "2\n"}, {"--name 3", 0, "ckpt.3\n"}, {"--name 9", 1, ""},
			{"--location 1", 0, "CACHE\n"}, {"--location 3", 0, "PFS\n"}, {"--location 9", 1, ""},
			{"--need-flush 1", 0, ""}, {"--need-flush 2", 1, ""}, {"--need-flush 9", 1, ""}, {"--needflush 1", 0, ""}, {"--needflush 3", 1, ""},
			{"--id 1", 1, ""}, {"--id 2", 0, ""}, {"--id 9", 1, ""},
			{"--latest --id 1", 2, ""}, {"", 2, ""}, {"--latest --before 3", 2, ""}, {"--id x", 2, ""},
		} {
			expect(t, test.status, test.out, append([]string{"scr_flush_file", "--dir", dir}, strings.Fields(test.argv)...)...)
		}
	}
	expect(t, 0, "4\n", "scr_nodes_file", "--dir", c.Prefix())
	if _, said := run(t, 1, "scr_flush_file", "--dir", t.TempDir(), "--latest"); !strings.Contains(said, "flush.scr") {
		t.Error(said)
	}
	run(t, 1, "scr_nodes_file", "--dir", t.TempDir())
}

func TestHalt(t *testing.T) {
	dir := t.TempDir()
	cntl := func(argv ...string) []string { return append([]string{"scr_halt_cntl", "--dir", dir}, argv...) }
	expect(t, 1, "scr_retries_halt: CONTINUE RUN: No halt file found.\n", "scr_retries_halt", "--dir", dir)
	head := "Halt file settings for " + filepath.Join(dir, ".scr/halt.scr") + ":\n"
	expect(t, 0, head+"  None\n", cntl()...)
	expect(t, 0, "Setting CheckpointsLeft\nSetting ExitReason\n\n"+head+"  ExitReason:      enough\n  CheckpointsLeft: 2\n", cntl("-c2", "-r", "enough", "-l")...)
	expect(t, 0, "scr_retries_halt: HALT RUN: Reason: enough.\n", "scr_retries_halt", "-d", dir)
	expect(t, 0, "Unsetting ExitReason\n\n"+head+"  CheckpointsLeft: 2\n", cntl("-xr")...)
	expect(t, 1, "", "scr_retries_halt", "--dir", dir)
	expect(t, 0, "Unsetting CheckpointsLeft\n\n"+head+"  None\n", cntl("-xc")...)
	run(t, 0, cntl("-c", "0")...)
	run(t, 0, "scr_retries_halt", "--dir", dir)
	run(t, 0, cntl("--unset-checkpoints", "--after", "2001-01-01T12:00:00")...)
	run(t, 0, "scr_retries_halt", "--dir", dir)
	run(t, 0, cntl("--unset-after", "--before", "4000000000", "--seconds", "60")...)
	run(t, 1, "scr_retries_halt", "--dir", dir)
	run(t, 0, cntl("-s", "3900000000")...)
	if out, _ := run(t, 0, "scr_retries_halt", "--dir", dir); !strings.Contains(out, "is past ExitBefore-HaltSeconds time") {
		t.Error(out)
	}
	file := filepath.Join(dir, "own")
	run(t, 0, "scr_halt_cntl", "-f", file, "-c", "7")
	expect(t, 0, "Halt file settings for "+file+":\n  CheckpointsLeft: 7\n", "scr_halt_cntl", "-f", file)
	for _, bad := range [][]string{{"-c", "-1"}, {"-a", "soon"}, {"-r", "two\nlines"}, {"argument"}, {"-xl"}, {"-x", "cb"}, {"-c", "1", "-xc"}} {
		run(t, 2, cntl(bad...)...)
	}
	// A job that has ended by itself is not started again.
	c := scavengetest.New(t)
	c.Job(scavengetest.Four, func(s *session.Session, rank int) error { return s.Finalize() })
	expect(t, 0, "scr_retries_halt: HALT RUN: Reason: SCR_FINALIZE_CALLED.\n", "scr_retries_halt", "--dir", c.Prefix())
	expect(t, 0, "scr_retries_halt: HALT RUN: Reason: SCR_FINALIZE_CALLED.\n", "scr_retries_halt", "--dir", c.Prefix(), "--later", "x", "-Z")
	// One that cannot read the file does not continue for ever.
	must(t, os.WriteFile(c.Path(".scr/halt.scr"), []byte("nonsense"), 0o600))
	if _, said := run(t, 0, "scr_retries_halt", "--dir", c.Prefix()); !strings.Contains(said, "halt.scr") {
		t.Error(said)
	}
}

func TestInspectCache(t *testing.T) {
	c := scavengetest.New(t)
	nodes := []string{"a", "b", "b", "c"}
	c.Write(nodes, 1, 2)
	must(t, os.Remove(c.Cached("b", 2, scavengetest.Contents(2, 1)[0].Name)))
	out, said := run(t, 0, "scr_inspect_cache", "--cntldir", c.Control("b"))
	if strings.Count(out, "YES") != 6 || strings.Count(out, "NO") != 2 || !strings.Contains(said, "dataset 2, rank 1: ") {
		t.Errorf("%s%s", out, said)
	}
	out, _ = run(t, 0, "scr_inspect_cache", "--json", "--cntldir", c.Control("b"))
	var list []cachedPart
	must(t, json.Unmarshal([]byte(out), &list))
	if len(list) != 4 || list[0].Files != len(scavengetest.Contents(1, 1)) || list[0].Ranks != 4 || list[0].Name != "ckpt.1" {
		t.Errorf("%+v", list)
	}
	run(t, 1, "scr_inspect_cache", "--cntldir", t.TempDir())
	run(t, 1, "scr_inspect_cache", "--cntldir", "/nowhere")
	// Where the job has its control directory is known from the configuration.
	t.Setenv("SCR_CNTL_BASE", c.Node("c"))
	t.Setenv("SCR_USER_NAME", "user")
	t.Setenv("SCR_JOB_ID", "job")
	if out, _ := run(t, 0, "scr_inspect_cache"); strings.Count(out, "YES") != 4 {
		t.Error(out)
	}
}

// Jobs protect and flush in the background only what they wait for.
func init() { background.Delay = time.Hour }

// A dataset is whole before it is protected, and with SINGLE it never is.
func TestInspectCache_NotProtected(t *testing.T) {
	for kind, want := range map[string]string{"XOR": "2 true true, 3 true false", "SINGLE": "2 true false, 3 true false"} {
		c := scavengetest.New(t, "SCR_COPY_TYPE="+kind, "SCR_ENCODE_ASYNC=1", "SCR_CACHE_SIZE=2")
		c.Write(scavengetest.Four, 1, 2, 3)
		out, _ := run(t, 0, "scr_inspect_cache", "--json", "--cntldir", c.Control("b"))
		var list []cachedPart
		must(t, json.Unmarshal([]byte(out), &list))
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprint(p.ID, " ", p.Whole, " ", p.Protected))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %s", kind, got, want)
		}
		if told := list[len(list)-1].Why != ""; told != (kind == "XOR") {
			t.Errorf("%s: %s", kind, out)
		}
	}
}

// A checkpoint that has made way for one of another computation is dropped by its own name only, and then with its files.
func TestIndex_Chosen(t *testing.T) {
	for _, option := range []string{"--current", "--drop-after"} {
		c := scavengetest.New(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=4")
		c.Write(scavengetest.Four, 1, 2, 3)
		offers := func(step int) {
			t.Helper()
			c.Job(scavengetest.Four, func(s *session.Session, rank int) error {
				if got, _, err := s.HaveRestart(); err != nil || got != scavengetest.Name(step) {
					return fmt.Errorf("offered %q, want that of step %d (%v)", got, step, err)
				}
				return nil
			})
		}
		offers(3)
		if _, said := run(t, 1, "scr_index", "-p", c.Prefix(), option, "ckpt.1"); !strings.Contains(said, "only in the cache") || !strings.Contains(said, "SCR_CURRENT=ckpt.1") {
			t.Error(said)
		}
		shown := func(name string, want bool) {
			t.Helper()
			for command, text := range map[string]string{"scr_status": "\nchosen: the next run restarts from " + name, "scr_doctor": "a user has chosen " + name} {
				if out, _ := run(t, map[string]int{"scr_status": 0, "scr_doctor": 1}[command], command, "--offline", c.Prefix()); strings.Contains(out, text) != want {
					t.Errorf("after %s %s:\n%s", option, name, out)
				}
			}
		}
		run(t, 0, "scr_index", "-p", c.Prefix(), option, "ckpt.2")
		shown("ckpt.2", true)
		if out, _ := run(t, 0, "scr_status", "--offline", "--json", c.Prefix()); strings.Count(out, `"chosen": true`) != 1 {
			t.Errorf("after %s:\n%s", option, out)
		}
		if option == "--current" { // that of the newest withdraws it, also if that is only in the cache
			run(t, 0, "scr_index", "-p", c.Prefix(), option, "ckpt.3")
			shown("ckpt.2", false)
			offers(3)
			run(t, 0, "scr_index", "-p", c.Prefix(), option, "ckpt.2")
		}
		offers(2)
		offers(2)
	}
}

// Each change says from what the next run restarts, and nothing on standard output.
func TestIndex_SaysWhatIsNext(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=2")
	c.Write(scavengetest.Four, 1, 2, 3)
	says := func(want string, argv ...string) {
		t.Helper()
		out, said := run(t, 0, append([]string{"scr_index", "-p", c.Prefix()}, argv...)...)
		if out != "" || said != "scr_index: the next run "+want+"\n" {
			t.Errorf("%q: %q %q, want %q", argv, out, said, want)
		}
	}
	says("restarts from ckpt.2", "--current", "ckpt.2")
	says("restarts from ckpt.1", "--drop", "ckpt.2") // and not from what the user has gone back from
	says("restarts from ckpt.3", "--current", "ckpt.3")
	says("restarts from ckpt.1", "--current", "ckpt.1")
	says("restarts from ckpt.1", "--drop-after", "ckpt.1")
	says("restarts from ckpt.3, if the caches of the nodes are as the last run left them", "--drop", "ckpt.1")

	must(t, prefix.UpdateIndex(c.Prefix(), func(x *prefix.Index) error {
		x.Add(dataset.New(4, "ckpt.4", dataset.Checkpoint, 4, dataset.Owner{}, time.Now()), true, time.Now())
		return nil
	}))
	must(t, os.Remove(c.Path(".scr/flush.scr")))
	says("starts from the beginning: there is no checkpoint from which it can restart", "--drop", "ckpt.4")
	if _, said := run(t, 1, "scr_index", "-p", c.Prefix(), "--drop", "ckpt.4"); strings.Contains(said, "next run") {
		t.Error(said)
	}
}

func TestIndex_Retired(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1, 2)
	c.Lose(scavengetest.Four...)
	c.Write(scavengetest.Four[:2], 1)
	index := func(argv ...string) []string { return append([]string{"scr_index", "-p", c.Prefix()}, argv...) }
	list := func(want string) {
		t.Helper()
		out, _ := run(t, 0, index("--json")...)
		var entries []listed
		must(t, json.Unmarshal([]byte(out), &entries))
		got := ""
		for _, e := range entries {
			if e.Indexed {
				got += fmt.Sprintf("%d:%s %v, ", e.ID, e.Name, e.Valid)
			}
		}
		if got != want {
			t.Errorf("index %q, want %q", got, want)
		}
	}
	list("3:ckpt.1 true, 2:ckpt.2 true, 1:ckpt.1~1 true, ")
	run(t, 0, index("--verify", "ckpt.1~1")...)
	run(t, 0, index("--build", "1")...) // there is nothing to do
	run(t, 0, index("--current", "ckpt.1~1")...)
	c.Lose(scavengetest.Four...)
	c.Restarts(4, 1)
	run(t, 0, index("--drop-after", "ckpt.1~1")...)
	list("1:ckpt.1~1 true, ")
	run(t, 0, index("--add", "ckpt.1")...)
	list("3:ckpt.1 true, 1:ckpt.1~1 true, ")
	run(t, 0, index("--drop", "ckpt.1")...) // its files stay
	if _, said := run(t, 1, index("--drop", "ckpt.1")...); !strings.Contains(said, "called ckpt.1~1") {
		t.Error(said)
	}
	list("1:ckpt.1~1 true, ")
	run(t, 0, index("--drop", "ckpt.1~1")...)
	if left, _ := filepath.Glob(filepath.Join(c.Prefix(), ".scr/retired.*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestIndex_DropAddCurrent(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1, 2, 3, 4)
	index := func(argv ...string) []string { return append([]string{"scr_index", "-p", c.Prefix()}, argv...) }
	list := func(want string) {
		t.Helper()
		out, _ := run(t, 0, index("--json")...)
		var entries []listed
		must(t, json.Unmarshal([]byte(out), &entries))
		got := ""
		for _, e := range entries {
			if e.Indexed {
				got += fmt.Sprintf("%d%v%v ", e.ID, e.Valid, e.Current)
			} else if e.Valid || !slices.Equal(e.Place, []string{"cache"}) {
				t.Errorf("%+v", e)
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("index %q, want %q", got, want)
		}
	}
	list("4truetrue 3truefalse 2truefalse 1truefalse")
	run(t, 0, index("--drop", "ckpt.4")...)
	list("3truetrue 2truefalse 1truefalse") // the newest that is left is current
	run(t, 0, index("--current", "ckpt.2")...)
	list("3truefalse 2truetrue 1truefalse")
	run(t, 0, index("--add", "ckpt.4")...)
	list("4truefalse 3truefalse 2truetrue 1truefalse")
	run(t, 0, index("--drop-after", "ckpt.2")...)
	list("2truetrue 1truefalse")
	c.Restarts(4, 2)
	for _, option := range []string{"--drop", "--drop-after", "--current", "--add"} {
		if _, said := run(t, 1, index(option, "nothing")...); !strings.Contains(said, `"nothing"`) {
			t.Error(said)
		}
	}
	for _, argv := range [][]string{{"--drop", "a", "--current", "b"}, {"--build", "0"}, {"--build", "x"}, {"--repair", "--json"}, {"name"}} {
		run(t, 2, index(argv...)...)
	}
	run(t, 1, index("--build", "77")...)
}

func TestIndex_Expand(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd")
	c.Write(scavengetest.Four, 1, 2)
	index := func(args ...string) []string { return append([]string{"scr_index", "-p", c.Prefix()}, args...) }
	file := c.Path(scavengetest.Contents(2, 0)[1].Name)
	size := func() int64 {
		info, err := os.Stat(file)
		must(t, err)
		return info.Size()
	}
	small := size()
	compressed := func(want string) {
		t.Helper()
		out, _ := run(t, 0, index("--json")...)
		var list []listed
		must(t, json.Unmarshal([]byte(out), &list))
		if got := fmt.Sprint(list[0].Valid, list[0].Compressed, list[1].Compressed); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	compressed("true true true")
	run(t, 0, index("--verify")...)
	for range 2 {
		run(t, 0, index("--expand", "ckpt.2")...)
		compressed("true false true")
	}
	if size() <= small {
		t.Errorf("%d bytes, compressed %d", size(), small)
	}
	run(t, 0, index("--verify")...)
	run(t, 1, index("--expand", "nothing")...)
	// An index made again knows which is which.
	must(t, os.Remove(c.Path(".scr/index.scr")))
	run(t, 0, index("--repair")...)
	compressed("true false true")
	c.Lose(scavengetest.Four...)
	c.Restarts(4, 2)
}

// What a flush with compression has left half done is scavenged as it was written.
func TestIndex_BuildOverCompressed(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd")
	c.Write(scavengetest.Four, 1)
	x, err := prefix.ReadIndex(c.Prefix())
	must(t, err)
	must(t, prefix.Incomplete(c.Prefix(), x.Entries()[0].Dataset))
	must(t, os.Remove(c.Path(".scr/scr.dataset.1/summary.scr")))
	c.Lose("b")
	for _, node := range []string{"a", "c", "d"} {
		run(t, 0, "scr_copy", "--cntldir", c.Control(node), "--id", "1", "--prefix", c.Prefix())
	}
	run(t, 0, "scr_index", "-p", c.Prefix(), "--build", "1")
	run(t, 0, "scr_index", "-p", c.Prefix(), "--verify")
	for rank := range 4 {
		for _, f := range scavengetest.Contents(1, rank) {
			data, err := os.ReadFile(c.Path(f.Name))
			if err != nil || !bytes.Equal(data, f.Data) {
				t.Errorf("%s: %d bytes, %v", f.Name, len(data), err)
			}
		}
	}
	c.Lose("a", "c", "d")
	c.Restarts(4, 1)
}

func TestIndex_Verify(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1, 2)
	run(t, 0, "scr_index", "-p", c.Prefix(), "--verify")
	file := scavengetest.Contents(2, 2)[0].Name
	scavengetest.Change(t, c.Path(file), scavengetest.Flip)
	out, _ := run(t, 1, "scr_index", "-p", c.Prefix(), "--verify")
	if !strings.Contains(out, file+" is corrupt: checksum") || !strings.Contains(out, "1 ckpt.1: 6 files") {
		t.Error(out)
	}
	run(t, 0, "scr_index", "-p", c.Prefix(), "--verify", "ckpt.1")
	out, _ = run(t, 1, "scr_index", "-p", c.Prefix(), "--verify", "--json", "ckpt.2")
	var list []verified
	must(t, json.Unmarshal([]byte(out), &list))
	if len(list) != 1 || len(list[0].Problems) != 1 || list[0].Files != 6 {
		t.Errorf("%+v", list)
	}
	must(t, os.Remove(c.Path(file)))
	run(t, 1, "scr_index", "-p", c.Prefix(), "--verify")
	run(t, 1, "scr_index", "-p", c.Prefix(), "--verify", "nothing")
}

func TestIndex_Repair(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1, 2, 3)
	index := c.Path(".scr/index.scr")
	before, err := os.ReadFile(index)
	must(t, err)
	run(t, 0, "scr_index", "-p", c.Prefix(), "--repair")
	if now, err := os.ReadFile(index); err != nil || string(now) != string(before) {
		t.Errorf("a good index was changed (%v)", err)
	}
	must(t, os.WriteFile(index, before[:len(before)/2], 0o600))
	must(t, os.WriteFile(c.Path(".scr/scr.dataset.2/summary.scr"), []byte("x"), 0o600))
	if _, said := run(t, 1, "scr_index", "-p", c.Prefix()); !strings.Contains(said, "scr_index --repair -p '"+c.Prefix()+"'") {
		t.Error(said)
	}
	if _, said := run(t, 0, "scr_index", "-p", c.Prefix(), "--repair"); !strings.Contains(said, "scr.dataset.2/summary.scr") || !strings.Contains(said, "the new index has 2 datasets; it does not know from which of them a restart has failed") {
		t.Error(said)
	}
	out, _ := run(t, 0, "scr_index", "-p", c.Prefix())
	if strings.Count(out, "YES") != 2 {
		t.Error(out)
	}
	if aside, err := os.ReadFile(index + ".damaged"); err != nil || len(aside) != len(before)/2 {
		t.Errorf("%d bytes, %v", len(aside), err)
	}
	c.Restarts(4, 3)
	must(t, os.Remove(index))
	for _, what := range [][]string{{"--list"}, {"--list", "--json"}, {"--verify"}, {"--current", "ckpt.1"}} {
		if _, said := run(t, 1, append([]string{"scr_index", "-p", c.Prefix()}, what...)...); !strings.Contains(said, "scr_index --repair -p '"+c.Prefix()+"'") {
			t.Errorf("%q, the index gone: %q", what, said)
		}
	}
	run(t, 0, "scr_index", "-p", c.Prefix(), "--repair")
	c.Restarts(4, 3)
}

// A dataset of the cache that is incomplete in the prefix directory has a reason.
func TestIndex_WhyNotFlushed(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	must(t, prefix.UpdateIndex(dir, func(x *prefix.Index) error {
		for id, places := range map[int][]prefix.Location{1: nil, 2: {prefix.InCache}, 3: {prefix.InCache, prefix.Flushing}} {
			d := dataset.New(id, scavengetest.Name(id), dataset.Checkpoint, id, dataset.Owner{}, now)
			x.Add(d, false, now)
			for _, p := range places {
				must(t, prefix.Locate(dir, d, p, true))
			}
		}
		return nil
	}))
	out, said := run(t, 0, "scr_index", "-p", dir)
	want := "dataset 3 (ckpt.3): it is being flushed, or the flush was interrupted\n" +
		"dataset 2 (ckpt.2): the flush has failed or was interrupted, or scr_copy has not ended; it is in the cache\n"
	if strings.Count(out, " NO ") != 3 || said != want {
		t.Errorf("%s%s", out, said)
	}
}

// Where no job has been, --repair makes nothing.
func TestIndex_RepairOfNothing(t *testing.T) {
	dir := t.TempDir()
	if _, said := run(t, 1, "scr_index", "-p", dir, "--repair"); !strings.Contains(said, "there is no "+filepath.Join(dir, ".scr")+": no job has used "+dir) {
		t.Error(said)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("%v %v", list, err)
	}
}

// Whatever stands in the place of the index, there is one way out; and of several who
// take it at the same time, one does.
func TestIndex_RepairAnything(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1, 2)
	index := c.Path(".scr/index.scr")
	for how := range ways {
		undo := spoil(t, index, how)
		if _, said := run(t, 1, "scr_index", "-p", c.Prefix(), "--current", "ckpt.1"); !strings.Contains(said, "scr_index --repair -p '"+c.Prefix()+"'") {
			t.Errorf("%s: %s", how, said)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				run(t, 0, "scr_index", "-p", c.Prefix(), "--repair")
			}()
		}
		all.Wait()
		if out, _ := run(t, 0, "scr_index", "-p", c.Prefix()); strings.Count(out, "YES") != 2 {
			t.Errorf("%s: %s", how, out)
		}
		if _, err := os.Lstat(index + ".damaged"); err != nil {
			t.Errorf("%s: what was there is not kept: %v", how, err)
		}
		must(t, os.RemoveAll(index+".damaged"))
		undo()
	}
	c.Restarts(4, 2)
}

// The index of SCR 1.1 may be what is damaged.
func TestIndex_RepairOfSCR11(t *testing.T) {
	dir := t.TempDir()
	oldtest.Write(t, dir)
	must(t, os.WriteFile(filepath.Join(dir, "index.scr"), []byte("no hash"), 0o600))
	if _, said := run(t, 1, "scr_index", "-p", dir); !strings.Contains(said, "scr_index --repair") {
		t.Error(said)
	}
	run(t, 0, "scr_index", "-p", dir, "--repair")
	out, _ := run(t, 0, "scr_index", "-p", dir)
	for _, want := range []string{"  18 YES ", "  12 YES ", "   6 YES "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	run(t, 0, "scr_index", "-p", dir, "--verify")
}

// A link in the place of a file of the program is not what was flushed, as a restart
// sees it.
func TestIndex_VerifyLooksAsARestartDoes(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1)
	file := c.Path(scavengetest.Contents(1, 2)[0].Name)
	must(t, errors.Join(os.Rename(file, file+".real"), os.Symlink(file+".real", file)))
	if out, _ := run(t, 1, "scr_index", "-p", c.Prefix(), "--verify"); !strings.Contains(out, "not a regular file") || !strings.Contains(out, "1 problem\n") {
		t.Error(out)
	}
	c.Restarts(4, 0)
}

// What SCR 1.1 left is listed, and its copies of one checkpoint too.
func TestIndex_OfSCR11(t *testing.T) {
	dir := t.TempDir()
	oldtest.Write(t, dir)
	for time := range 2 { // the second time there is an index of ours, which has room for one copy
		out, _ := run(t, 0, "scr_index", "-p", dir)
		for _, want := range []string{"  18 YES   2011-02-28T12:37:36   *      -         0B -   prefix " + oldtest.Dirs[18][0], "  12 YES ", "   6 YES "} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		if failed := strings.Contains(out, "  18 NO"); failed != (time == 0) {
			t.Error(out)
		}
		run(t, 0, "scr_index", "-p", dir, "--verify")
		run(t, 0, "scr_index", "-p", dir, "--current", oldtest.Dirs[18][0])
	}
	run(t, 0, "scr_index", "-p", dir, "--drop", oldtest.Dirs[12][0])
	run(t, 0, "scr_index", "-p", dir, "--add", oldtest.Dirs[12][0])
	if out, _ := run(t, 0, "scr_index", "-p", dir, "--verify", oldtest.Dirs[12][0]); !strings.Contains(out, "4 files") {
		t.Error(out)
	}
	for _, bad := range []string{"..", "/tmp", "none"} {
		run(t, 1, "scr_index", "-p", dir, "--add", bad)
	}
	must(t, os.WriteFile(filepath.Join(dir, oldtest.Dirs[6][0], oldtest.Name(1)), []byte("x"), 0o600))
	run(t, 1, "scr_index", "-p", dir, "--verify")
}

// Everything of SCR 3.1's can be verified, as far as it says what there should be.
func TestIndex_VerifySCR(t *testing.T) {
	const samples = "../../testdata/scr-3.1/job/prefix"
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(samples)))
	out, _ := run(t, 0, "scr_index", "-p", dir, "--verify")
	if strings.Count(out, "4 files, 16.0 KiB: ok, 4 files without a checksum to compare") != 3 {
		t.Error(out)
	}
	expect(t, 0, "5\n", "scr_flush_file", "--dir", dir, "--latest")
	run(t, 0, "scr_index", "-p", dir, "--drop-after", "ckpt.2")
	run(t, 0, "scr_index", "-p", dir, "--add", "ckpt.4")
}
