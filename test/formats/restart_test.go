package formats

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/test/sample"
)

// moved returns a site with the files of a kind of the corpus.
func moved(t testing.TB, version, kind string, env ...string) *site {
	t.Helper()
	s := newSite(t, env...)
	loadKind(t, version, kind).move(s)
	return s
}

// writers are the versions of goscr in the corpus. What a job left that ran with one
// of them, a job takes up that runs with this one.
func writers(t testing.TB) []string {
	t.Helper()
	list := allWriters(t)
	older := slices.DeleteFunc(slices.Clone(list), func(version string) bool { return version == current })
	drawn := sample.Of(t, older, 1, 3)
	return slices.DeleteFunc(list, func(version string) bool { return version != current && !slices.Contains(drawn, version) })
}

func allWriters(t testing.TB) (list []string) {
	t.Helper()
	for _, version := range versions(t) {
		if strings.HasPrefix(version, "goscr-") {
			list = append(list, version)
		}
	}
	return list
}

// reads is a program that restarts from a checkpoint and finds in it, on each rank,
// the files that it had there.
func reads(name string, files func(rank int) map[string][]byte) func(c *session.Session, rank int) error {
	return func(c *session.Session, rank int) error {
		got, ok, err := c.HaveRestart()
		if err != nil || !ok || got != name {
			return fmt.Errorf("offered %q (%v, %v), want %q", got, ok, err, name)
		}
		if _, err := c.StartRestart(); err != nil {
			return err
		}
		for file, want := range files(rank) {
			path, e := routed(c, file)
			var data []byte
			if e == nil {
				data, e = os.ReadFile(path)
			}
			if e == nil && !bytes.Equal(data, want) {
				e = fmt.Errorf("rank %d: %s: other bytes than were written", rank, path)
			}
			if err == nil {
				err = e
			}
		}
		if err := c.Agree(err); err != nil {
			return err
		}
		return c.CompleteRestart(true)
	}
}

// readsStep is reads for a checkpoint of a scene.
func readsStep(step int) func(c *session.Session, rank int) error {
	return reads(name(step), func(rank int) map[string][]byte { return files(step, rank) })
}

// all is every node.
var all = []int{0, 1, 2, 3}

// goesOn has a job restart from a checkpoint, write another, and end; and then,
// without the nodes that are lost, one that restarts from that.
func (s *site) goesOn(restart func(c *session.Session, rank int) error, lost ...int) {
	s.t.Helper()
	s.env["SCR_FLUSH"] = "1"
	s.job(ranks, "", func(c *session.Session, rank int) error {
		if err := restart(c, rank); err != nil {
			return err
		}
		if err := checkpoint(c, rank, 40); err != nil {
			return err
		}
		return c.Finalize()
	})
	s.command(0, "scr_halt_cntl", "--dir", s.prefix(""), "--unset-reason")
	s.lose(lost...)
	s.job(ranks, "", readsStep(40))
}

// lose loses the storage of nodes.
func (s *site) lose(nodes ...int) {
	s.t.Helper()
	for _, i := range nodes {
		must(s.t, os.RemoveAll(s.node(i)))
	}
}

// A job continues from the cache that one with an older version left, also when nodes
// are lost, as many as the scheme tolerates.
func TestRestart_Cache(t *testing.T) {
	for _, version := range writers(t) {
		for _, c := range []struct {
			kind string
			lost [][]int
		}{
			{"job", [][]int{{}, {0}, {3}}},
			{"partner", [][]int{{}, {1}, {0, 2}}},
			{"rs", [][]int{{}, {1}, {1, 2}, {0, 3}}},
			{"single", [][]int{{}}},
		} {
			for _, lost := range c.lost {
				t.Run(fmt.Sprint(version, "/", c.kind, lost), func(t *testing.T) {
					s := moved(t, version, c.kind)
					must(t, os.RemoveAll(s.prefix("ckpt.2"))) // so that nothing can be fetched
					s.lose(lost...)
					s.goesOn(readsStep(2), all...)
				})
			}
		}
	}
}

// What a node has is listed by a command, and brought home by others.
func TestScavenge_Cache(t *testing.T) {
	for _, version := range writers(t) {
		for kind, lost := range map[string][]int{"partner": {1}, "rs": {1, 2}, "single": {}} {
			t.Run(version+"/"+kind, func(t *testing.T) {
				s := moved(t, version, kind)
				for node := range ranks {
					if slices.Contains(lost, node) {
						continue
					}
					var list []map[string]any
					must(t, json.Unmarshal([]byte(s.command(node, "scr_inspect_cache", "--json")), &list))
					if len(list) != 1 || !strings.Contains(fmt.Sprint(list[0]), name(2)) {
						t.Errorf("node %d has %v", node, list)
					}
					s.command(node, "scr_copy", "--id", "1")
				}
				s.command(0, "scr_index", "--build", "1")
				s.lose(all...)
				s.goesOn(readsStep(2), all...)
			})
		}
	}
}

// storeWriters are the versions that record the stores of a job on the node.
func storeWriters(t testing.TB) []string {
	t.Helper()
	list := allWriters(t)
	for i, version := range list {
		if exists(t, filepath.Join(corpus, version, "stores")) {
			return list[i:]
		}
	}
	t.Fatal("no version has recorded stores")
	return nil
}

// A job restarts from a store that nodes share, and from those that each node has of its own.
func TestRestart_Stores(t *testing.T) {
	for _, version := range storeWriters(t) {
		t.Run(version+"/shared", func(t *testing.T) {
			s := moved(t, version, "stores")
			s.setStores()
			s.lose(0, 3)
			s.goesOn(readsStep(2))
		})
		t.Run(version+"/own", func(t *testing.T) {
			s := moved(t, version, "stores")
			s.setStores()
			must(t, os.RemoveAll(filepath.Join(s.root, "burst")))
			s.lose(2)
			s.goesOn(readsStep(1))
		})
	}
}

// What a job has left in stores of its own is found by the list in its control directory, by the
// id of the allocation, and removed. What nodes share stays.
func TestRemains_Stores(t *testing.T) {
	for _, version := range storeWriters(t) {
		t.Run(version, func(t *testing.T) {
			s := moved(t, version, "stores")
			s.setStores()
			const node = 1
			for _, name := range []string{"filemap.scrinfo", "filemap_0.scrinfo"} { // which name the directories, too
				must(t, os.WriteFile(filepath.Join(s.control(node), name), []byte("nonsense"), 0o600))
			}
			base := []string{"--user", "user", "--jobid", "77", "--base", filepath.Join(s.node(node), "cache"), "--base", filepath.Join(s.node(node), "cntl")}
			own, shared := filepath.Join(s.node(node), "cache/own/user/scr.job"), filepath.Join(s.root, "burst/user/scr.job")
			var list []struct {
				Job, Allocation     string
				Directories, Shared []string
			}
			must(t, json.Unmarshal([]byte(s.command(node, append([]string{"scr_du", "--json"}, base...)...)), &list))
			if len(list) != 1 || list[0].Job != "job" || list[0].Allocation != "77" || !slices.Contains(list[0].Directories, own) ||
				!slices.Equal(list[0].Shared, []string{shared}) {
				t.Fatalf("%+v", list)
			}
			s.command(node, append([]string{"scr_clean", "--force"}, base...)...)
			if exists(t, own) || exists(t, s.control(node)) || !exists(t, shared) {
				t.Error("not the right directories are left")
			}
		})
	}
}

// A filemap with its journal has all files, of a dataset that was complete and of
// one that was not.
func TestFilemap(t *testing.T) {
	for _, version := range writers(t) {
		s := moved(t, version, "job")
		m, err := filemap.OpenStore(filepath.Join(s.control(1), "filemap_0.scrinfo"))
		must(t, err)
		at := filepath.Join(s.node(1), "cache/user/scr.job/scr.dataset.")
		for id, want := range map[int][]string{
			2: {at + "2/.scr/2_of_4_in_0.xor", at + "2/ckpt.2/more/of rank 1", at + "2/ckpt.2/rank_1.dat"},
			3: {at + "3/ckpt.3/more/of rank 1", at + "3/ckpt.3/rank_1.dat"},
		} {
			if got := m.Files(id, 1); !slices.Equal(got, want) {
				t.Errorf("%s: dataset %d has %q", version, id, got)
			}
		}
		if err := m.Check(2, 1); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if m.Whole(3, 1) {
			t.Errorf("%s: a dataset that was being written is whole", version)
		}
		must(t, m.Close())
	}
}

// A job continues from the prefix directory that another left.
func TestRestart_Prefix(t *testing.T) {
	type restart = func(c *session.Session, rank int) error
	cases := map[string]restart{
		"scr-3.1/job": func(c *session.Session, rank int) error {
			return reads("ckpt.5", func(rank int) map[string][]byte { return sampled(t, "job", "ckpt.5/rank_%d.ckpt", rank) })(c, rank)
		},
		"scr-3.1/levels": func(c *session.Session, rank int) error {
			return reads("ckpt.1", func(rank int) map[string][]byte {
				return map[string][]byte{fmt.Sprintf("ckpt.1/rank_%d.ckpt", rank): old(1, rank)}
			})(c, rank)
		},
		"scr-1.1/prefix": reads(oldNewest, func(rank int) map[string][]byte {
			return map[string][]byte{fmt.Sprintf("rank_%d.ckpt", rank): old(18, rank)}
		}),
	}
	for _, version := range writers(t) {
		cases[version+"/job"] = readsStep(2)
		cases[version+"/bypass"] = reads(name(2), func(rank int) map[string][]byte {
			f := files(2, rank)
			f[sharedFile] = slices.Concat(part(0), part(1), part(2), part(3))
			return f
		})
		cases[version+"/compressed"] = reads(name(2), compressible)
	}
	for _, kind := range slices.Sorted(maps.Keys(cases)) {
		t.Run(kind, func(t *testing.T) {
			version, kind, _ := strings.Cut(kind, "/")
			s := moved(t, version, kind)
			s.lose(all...)
			if kind == "bypass" { // the ranks read the file that all have written where it is
				s.env["SCR_FETCH_BYPASS"] = "1"
			}
			if exists(t, s.prefix(".scr/halt.scr")) {
				s.command(0, "scr_halt_cntl", "--dir", s.prefix(""), "--unset-reason")
			}
			s.goesOn(cases[version+"/"+kind], all...)
		})
	}
}

// oldNewest is the checkpoint from which a job restarts that runs where SCR 1.1 has.
const oldNewest = "scr.2011-02-28_12:37:36.1145655.18"

// old is what is in a file that SCR 1.1 handled.
func old(id, rank int) []byte {
	data := make([]byte, 524+rank)
	for i := range data {
		data[i] = byte(i*id + rank)
	}
	return data
}

// sampled is a rank's file as the corpus has it, of SCR 3.1.
func sampled(t testing.TB, kind, pattern string, rank int) map[string][]byte {
	file := fmt.Sprintf(pattern, rank)
	data, err := os.ReadFile(filepath.Join(corpus, "scr-3.1", kind, "prefix", file))
	if err != nil {
		t.Error(err)
	}
	return map[string][]byte{file: data}
}

// listed is an entry of what scr_index --list --json prints.
type listed struct {
	ID                                                               int
	Name                                                             string
	Valid, Complete, Failed, Current, Compressed, Checkpoint, Output bool
	Flushed                                                          string
	Files                                                            int
	Bytes                                                            int64
	Why                                                              string
}

// Commands list what is in the prefix directories of all versions.
func TestIndex(t *testing.T) {
	ckpt2 := listed{Name: "ckpt.2", Valid: true, Complete: true, Current: true, Checkpoint: true, Flushed: "2026-01-02T03:04:05", Files: 5, Bytes: 1457}
	as := func(change func(l *listed)) []listed {
		l := ckpt2
		l.ID = 1
		change(&l)
		return []listed{l}
	}
	of31 := listed{Valid: true, Complete: true, Checkpoint: true, Flushed: "2026-11-21T00:23:45", Files: 4, Bytes: 16416}
	named := func(l listed, id int, name string, current bool) listed {
		l.ID, l.Name, l.Current = id, name, current
		return l
	}
	of11 := func(id int, second string, current, failed bool) listed {
		return listed{ID: id, Name: fmt.Sprintf("scr.2011-02-28_12:%s.1145655.%d", second, id), Flushed: "2011-02-28T12:" + second,
			Valid: !failed, Complete: true, Checkpoint: true, Current: current, Failed: failed}
	}
	cases := map[string][]listed{
		"scr-3.1/job":    {named(of31, 5, "ckpt.5", true), named(of31, 4, "ckpt.4", false), named(of31, 2, "ckpt.2", false)},
		"scr-3.1/levels": {{ID: 1, Name: "ckpt.1", Valid: true, Complete: true, Current: true, Checkpoint: true, Flushed: "2026-01-02T03:04:05", Files: 4, Bytes: 2102}},
		"scr-1.1/prefix": {of11(18, "37:36", true, false), of11(18, "37:14", false, true), of11(12, "37:04", false, false), of11(6, "36:50", false, false)},
	}
	for _, version := range writers(t) {
		cases[version+"/job"] = as(func(l *listed) { l.ID = 2 })
		cases[version+"/bypass"] = as(func(l *listed) { l.Files, l.Bytes = 6, 1557 })
		cases[version+"/restarting"] = as(func(*listed) {})
		cases[version+"/condemned"] = as(func(l *listed) {
			l.Valid, l.Failed, l.Current = false, true, false
			l.Why = "a restart from it failed on 2026-01-02T03:04:05: the program died while it read it"
		})
		cases[version+"/compressed"] = as(func(l *listed) { l.Compressed, l.Bytes = true, 3657 })
		incomplete := func(why string) []listed {
			return as(func(l *listed) { l.Valid, l.Complete, l.Current, l.Why = false, false, false, why })
		}
		cases[version+"/flushing"] = incomplete("it is being flushed, or the flush was interrupted")
		cases[version+"/scavenged"] = incomplete("the flush has failed or was interrupted, or scr_copy has not ended; it is in the cache")
	}
	cases[current+"/replaced"] = []listed{
		{ID: 2, Name: "ckpt.2", Valid: true, Complete: true, Current: true, Checkpoint: true, Flushed: "2026-01-02T03:04:05", Files: 8, Bytes: 200},
		{ID: 1, Name: "ckpt.1", Why: "its files were replaced by ckpt.2", Checkpoint: true, Flushed: "2026-01-02T03:04:05", Files: 8, Bytes: 200},
	}
	for kind, want := range cases {
		t.Run(kind, func(t *testing.T) {
			version, kind, _ := strings.Cut(kind, "/")
			s := moved(t, version, kind)
			var got []listed
			must(t, json.Unmarshal([]byte(s.command(0, "scr_index", "--list", "--json")), &got))
			if !slices.Equal(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// What scr_copy of an older version brought home, scr_index of this one makes whole.
func TestBuild_Scavenged(t *testing.T) {
	for _, version := range writers(t) {
		s := moved(t, version, "scavenged")
		s.command(0, "scr_index", "--build", "1")
		if data, err := os.ReadFile(s.prefix("ckpt.2/rank_2.dat")); err != nil || !bytes.Equal(data, noise(2, 2, 380)) {
			t.Errorf("%s: the file of the rank that was lost is not as it was (%v)", version, err)
		}
		s.goesOn(readsStep(2), all...)
	}
}

// What a job of an older version listed to be copied, scr_transfer of this one copies,
// and the next job makes it a checkpoint in the prefix directory.
func TestTransfer_Flushing(t *testing.T) {
	for _, version := range writers(t) {
		s := moved(t, version, "flushing", "SCR_FLUSH=1")
		for node := range ranks {
			s.command(node, "scr_transfer")
		}
		s.lose(all...)
		s.goesOn(readsStep(2), all...)
	}
}

// Without scr_transfer, the next job has the dataset in its cache.
func TestRestart_Flushing(t *testing.T) {
	for _, version := range writers(t) {
		moved(t, version, "flushing").goesOn(readsStep(2), all...)
	}
}

// Commands read the files that tell them about a job.
func TestCommands(t *testing.T) {
	for _, version := range writers(t) {
		s := moved(t, version, "restarting")
		const set = "  ExitReason:      maintenance\n  CheckpointsLeft: 7\n  ExitAfter:       Fri Jan  2 03:04:05 2026\n" +
			"  ExitBefore:      Fri Jan  2 04:04:05 2026\n  HaltSeconds:     1200\n  ExitBefore - HaltSeconds: Fri Jan  2 03:44:05 2026\n"
		for _, c := range []struct{ command, want string }{
			{"scr_halt_cntl --list", set},
			{"scr_retries_halt", "maintenance"},
			{"scr_nodes_file", "4\n"},
			{"scr_flush_file --list-ckpt", "1\n"},
			{"scr_flush_file --location 1", "PFS"},
			{"scr_flush_file --name 1", "ckpt.2\n"},
		} {
			if got := s.command(0, strings.Fields(c.command)...); !strings.Contains(got, c.want) {
				t.Errorf("%s: %s: %q, want %q", version, c.command, got, c.want)
			}
		}
	}
	s := moved(t, "scr-3.1", "job")
	for _, c := range []struct{ command, want string }{
		{"scr_halt_cntl --list", "  ExitReason:      SCR_FINALIZE_CALLED\n"},
		{"scr_nodes_file", "4\n"},
		{"scr_flush_file --location 5", "PFS"},
		{"scr_flush_file --name 5", "ckpt.5\n"},
	} {
		if got := s.command(0, strings.Fields(c.command)...); !strings.Contains(got, c.want) {
			t.Errorf("SCR 3.1: %s: %q, want %q", c.command, got, c.want)
		}
	}
}

// A checkpoint that the program died of while it read it is not offered once
// scr_run has condemned it, and one that has been condemned is not offered at all.
func TestRestartFile(t *testing.T) {
	for _, version := range writers(t) {
		s := moved(t, version, "restarting")
		if name, err := prefix.Condemn(s.prefix(""), epoch); err != nil || name != "ckpt.2" {
			t.Errorf("%s: condemned %q, %v", version, name, err)
		}
		s = moved(t, version, "condemned")
		s.job(ranks, "", func(c *session.Session, rank int) error {
			if name, ok, err := c.HaveRestart(); ok || err != nil {
				return fmt.Errorf("offered %q, %v", name, err)
			}
			return nil
		})
	}
}

// A run that was killed counts as a failure when the next one begins.
func TestRuns(t *testing.T) {
	for _, version := range writers(t) {
		s := moved(t, version, "restarting")
		s.job(ranks, "", func(c *session.Session, rank int) error { return c.Finalize() })
		h, err := hash.ReadFile(s.prefix(".scr/runs.scr"))
		must(t, err)
		runs, _ := h.Int("RUNS")
		if failures, _ := h.Int("FAILURES"); runs != 3 || failures != 1 {
			t.Errorf("%s: %d runs, %d failures", version, runs, failures)
		}
	}
}

// What a program of an older version has set is known to the commands.
func TestSettings(t *testing.T) {
	for _, version := range writers(t) {
		s := moved(t, version, "settings")
		got := s.command(0, "scr_log_event", "-T", "SOMETHING")
		text, err := os.ReadFile(s.prefix(".scr/log"))
		if err != nil || !strings.Contains(string(text), "event=SOMETHING") {
			t.Errorf("%s: %s%s (%v)", version, got, text, err)
		}
	}
}

// The log is gone on with.
func TestLog(t *testing.T) {
	for _, version := range writers(t) {
		s := moved(t, version, "log", "SCR_LOG_ENABLE=1", "SCR_LOG_TXT_ENABLE=1", "SCR_LOG_SYSLOG_ENABLE=0", "SCR_LOG_DB_ENABLE=1")
		s.command(0, "scr_log_event", "-T", "MORE", "-D", "8")
		text, err := os.ReadFile(s.prefix(".scr/log"))
		must(t, err)
		if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) != 4 || !strings.Contains(lines[3], "event=MORE") {
			t.Errorf("%s: the text is\n%s", version, text)
		}
		db, err := sql.Open("sqlite", s.prefix(".scr/log.sqlite"))
		must(t, err)
		defer db.Close()
		var events, transfers int
		must(t, db.QueryRow("SELECT (SELECT count(*) FROM events WHERE type IN ('NODE_FAIL', 'RUN_START', 'MORE')), (SELECT sum(bytes) FROM transfers)").Scan(&events, &transfers))
		if events != 3 || transfers != 4096 {
			t.Errorf("%s: the database has %d events, and %d bytes in transfers", version, events, transfers)
		}
	}
}

// What SCR 1.1 has left on a node is neither used nor in the way. The conditions to
// halt and the number of nodes are the same ones.
func TestSCR11_Node(t *testing.T) {
	s := moved(t, "scr-1.1", "cache")
	if got := s.command(0, "scr_halt_cntl", "-f", filepath.Join(s.control(0), "halt.scr"), "--list"); !strings.Contains(got, "CheckpointsLeft: 7\n") {
		t.Errorf("halt.scr: %s", got)
	}
	if got, err := s.try(0, "scr_inspect_cache"); err == nil {
		t.Errorf("scr_inspect_cache finds %s", got)
	}
	loadKind(t, "scr-1.1", "prefix").move(s)
	s.goesOn(reads(oldNewest, func(rank int) map[string][]byte {
		return map[string][]byte{fmt.Sprintf("rank_%d.ckpt", rank): old(18, rank)}
	}), 1, 2, 3)
	data, err := os.ReadFile(filepath.Join(s.node(0), "cache/user/scr.job/index.0/checkpoint.18/rank_0.ckpt"))
	if err != nil || !bytes.Equal(data, old(18, 0)) {
		t.Errorf("data that SCR 1.1 left on a node is not as it was (%v)", err)
	}
}
