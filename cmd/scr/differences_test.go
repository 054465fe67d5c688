package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/test/scavengetest"
)

// options31 are the options of the commands of SCR 3.1, each with all its forms; "" stands
// for a call without an option. Options that only help, and scr_run, are left out.
var options31 = map[string]string{
	"scr_index":           "-l --list,-b --build,-a --add,-d --drop,--drop-after,--current,-p --prefix",
	"scr_print":           "-m --mode",
	"kvtree_print":        ",-m --mode",
	"scr_crc32":           "",
	"scr_flush_file":      "-d --dir,-o --list-output,--list-ckpt,--before,-n --need-flush,-L --location,-s --name,-l --latest,-r --resume,-S --summary",
	"scr_nodes_file":      "-d --dir",
	"scr_retries_halt":    "-d --dir",
	"scr_halt_cntl":       "-f,-l,-c,-b,-a,-s,-r,-x",
	"scr_halt":            "-c --checkpoints,-b --before,-a --after,-s --seconds,-l --list,--unset-checkpoints,--unset-before,--unset-after,--unset-seconds,--unset-reason,-r --remove,-i --immediate,-v --verbose",
	"scr_log_event":       "-p,-u,-j,-i,-s,-T,-N,-D,-n,-S,-L",
	"scr_log_transfer":    "-p,-u,-j,-i,-s,-T,-X,-Y,-D,-n,-S,-L,-B,-F",
	"scr_copy":            "-c --cntldir,-i --id,-d --prefix,-b --buf,-r --crc",
	"scr_rebuild_xor":     "",
	"scr_rebuild_partner": "",
	"scr_rebuild_rs":      "",
	"scr_prerun":          "-p --prefix,-v --verbose",
	"scr_postrun":         "-j --joblauncher,-p --prefix,-v --verbose",
	"scr_should_exit":     "-p --prefix,--down,--min-nodes,--runs,-v --verbose",
	"scr_list_down_nodes": "-j --joblauncher,-r --reason,-f --free,-d --down,-l --log,-s --secs,-v",
	"scr_hostlist":        ",-d --delimiter,-s --size,-m --minus,-i --intersection,-e --expand,-c --count,-n --nth",
	"scr_env":             "-u --user,-j --jobid,-e --endtime,-n --nodes,-d --down,-r --runnodes,-p --prefix",
	"scr_list_dir":        ",-b --base,-p --prefix",
	"scr_check_node":      "--cntl,--cache,--free",
	"scr_ckpt_interval":   "--stats,--model,--percent,--prefix,--logfile",
	"scr_kill_jobstep":    "-l --launcher,-j --jobStepId,-b",
	"scr_scavenge":        "-j,-i,-f,-p,-v",
}

// difference is a row of the table in testdata/scr31.md.
type difference struct {
	command string
	options []string // the forms of one option, or several options that go together
	call    string   // a command line, in a prefix directory
	out     string   // what it prints on standard output; one that ends with … continues
	status  string
	told    string // the row of docs/differences.md about it, "" if goscr does not differ
}

var inCode = regexp.MustCompile("`([^`]+)`")

func codes(cell string) (list []string) {
	for _, m := range inCode.FindAllStringSubmatch(cell, -1) {
		list = append(list, strings.TrimRight(m[1], " ")) // "` `" is an empty line
	}
	return list
}

// differences reads the table.
func differences(t *testing.T) (rows []difference) {
	t.Helper()
	page, err := os.ReadFile("testdata/scr31.md")
	must(t, err)
	_, table, found := strings.Cut(string(page), "\n| command | option | for example | prints | exit |")
	if !found {
		t.Fatal("testdata/scr31.md has no table of commands")
	}
	command := ""
	for _, line := range strings.Split(table, "\n")[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
		}
		if len(cells) != 6 {
			t.Fatalf("%d cells: %s", len(cells), line)
		}
		if name := codes(cells[0]); len(name) == 1 {
			command = name[0]
		}
		call := codes(cells[2])
		if len(call) != 1 {
			t.Fatalf("no example: %s", line)
		}
		d := difference{command, codes(cells[1]), call[0], strings.Join(codes(cells[3]), "\n"), cells[4], ""}
		if cells[5] != "" {
			d.told = fmt.Sprintf("| `%s` | %s | %s |", command, cells[1], cells[5])
		}
		rows = append(rows, d)
	}
	return rows
}

// docs/differences.md has the rows in which goscr differs, and no others.
func TestDifferences_AreTold(t *testing.T) {
	page, err := os.ReadFile("../../docs/differences.md")
	must(t, err)
	_, table, _ := strings.Cut(string(page), "\n| command | option | other than in 3.1 |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, d := range differences(t) {
		if d.told != "" {
			want = append(want, d.told)
		}
	}
	if want := strings.Join(want, "\n"); table != want || want == "" {
		t.Errorf("docs/differences.md has\n%s\nand testdata/scr31.md\n%s", table, want)
	}
}

// Every option of SCR 3.1 is in the table.
func TestDifferences_AreComplete(t *testing.T) {
	told := map[string]map[string]bool{}
	for _, d := range differences(t) {
		if told[d.command] == nil {
			told[d.command] = map[string]bool{}
		}
		for _, option := range d.options {
			told[d.command][option] = true
		}
		if len(d.options) == 0 {
			told[d.command][""] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(options31)) {
		for option := range strings.SplitSeq(options31[name], ",") {
			for _, form := range strings.Split(option, " ") {
				if !told[name][form] {
					t.Errorf("testdata/scr31.md says nothing of %s %s", name, form)
				}
			}
		}
	}
	for name := range told {
		if _, ok := options31[name]; !ok {
			t.Errorf("testdata/scr31.md has %s, which this test does not know", name)
		}
	}
}

// Our commands have the options, and the forms of one option are one option.
func TestDifferences_OptionsAreThere(t *testing.T) {
	for name, list := range options31 {
		c := findCommand(name)
		if c == nil {
			t.Errorf("there is no command %s", name)
			continue
		}
		flags := c.flags()
		for option := range strings.SplitSeq(list, ",") {
			var values []any
			for _, form := range strings.Fields(option) {
				f := flags.Lookup(strings.TrimPrefix(form, "--"))
				if !strings.HasPrefix(form, "--") {
					f = flags.ShorthandLookup(form[1:])
				}
				if f == nil {
					t.Errorf("%s has no option %s", name, form)
					continue
				}
				values = append(values, f.Value)
			}
			if len(values) == 2 && values[0] != values[1] {
				t.Errorf("%s: %s are two options", name, option)
			}
		}
	}
}

// What changes from one test to the next stands in the table as a word.
var changing = []struct{ pattern, word string }{
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`, "TIME"},
	{` +\d+(\.\d\d)?s +\d+\.\dKiB `, " AGE SIZE "},
	{`[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}`, "TIME"},
}

// Each example of the table prints and returns what the table says.
func TestDifferences_AreTrue(t *testing.T) {
	rows := differences(t)
	for len(rows) > 0 {
		n := slices.IndexFunc(rows, func(d difference) bool { return d.command != rows[0].command })
		if n < 0 {
			n = len(rows)
		}
		t.Run(rows[0].command, func(t *testing.T) {
			places := place31(t)
			for _, d := range rows[:n] {
				d.isTrue(t, places)
			}
		})
		rows = rows[n:]
	}
}

// place31 makes the prefix directory in which the examples of a command run: a job on the
// nodes a to d has written the checkpoints 1 and 4, which are in the cache, the output 2 and
// the checkpoint 3, which is an output, too. Node d is lost. It returns the directories that
// the examples name.
func place31(t *testing.T) map[string]string {
	t.Helper()
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
	c.Lose("d")
	alone(t)
	t.Setenv("SCR_PREFIX", c.Prefix())
	t.Setenv("SCR_LOG_SYSLOG_ENABLE", "0")
	t.Chdir(c.Prefix())
	must(t, os.WriteFile("nine", []byte("123456789"), 0o600))
	const log = "2026-11-21T00:00:00: host=n, jobid=1, event=INIT_START, note=\"event=HALT, secs=9\"\n" +
		"2026-11-21T00:10:00: host=n, jobid=1, event=CHECKPOINT_END, dset=1, secs=10.000000\n" +
		"2026-11-21T00:33:20: host=n, jobid=1, event=COMPUTE_START\n" +
		"2026-11-21T01:00:00: host=n, jobid=1, event=START, procs=4, nodes=2\n" +
		"2026-11-21T01:33:20: host=n, jobid=1, event=HALT, note=\"SCR_FINALIZE_CALLED\"\n"
	must(t, os.WriteFile(".scr/log", []byte(log), 0o600))
	home := t.TempDir()
	t.Setenv("SCR_CNTL_BASE", filepath.Join(home, "cntl"))
	t.Setenv("SCR_CACHE_BASE", filepath.Join(home, "cache"))
	return map[string]string{"$PREFIX": c.Prefix(), "$A": c.Control("a"), "$B": c.Control("b"), "$C": c.Control("c"), "$HOME": home}
}

func (d difference) isTrue(t *testing.T, places map[string]string) {
	t.Helper()
	call := d.call
	for name, dir := range places {
		call = strings.ReplaceAll(call, name, dir)
	}
	argv, err := words(call)
	must(t, err)
	if argv[0] == "scr_halt" { // for a job that runs
		var rank0 *lock.Lock
		for rank0 == nil { // the session that has ended as if killed holds its lock until its file is collected
			runtime.GC()
			rank0, err = lock.Try(request.LockPath("."), lock.Exclusive)
			must(t, err)
		}
		defer rank0.Release()
	}
	for i := len(argv) - 1; i > 0; i-- { // as a shell would
		if list, _ := filepath.Glob(argv[i]); strings.Contains(argv[i], "*") && len(list) > 0 {
			argv = slices.Replace(argv, i, i+1, list...)
		}
	}
	for len(argv) > 0 && strings.HasPrefix(argv[0], "SCR_") {
		name, value, _ := strings.Cut(argv[0], "=")
		t.Setenv(name, value)
		defer os.Unsetenv(name)
		argv = argv[1:]
	}
	if argv[0] != d.command {
		t.Errorf("%s is the example of %s", d.call, d.command)
	}
	if len(d.options) > 0 && !slices.ContainsFunc(d.options, func(form string) bool { return strings.Contains(d.call+" ", " "+form) }) {
		t.Errorf("%s is the example of %q", d.call, d.options)
	}
	status := map[string]int{"0": 0, "1": 1, "2": 2}
	want, ok := status[d.status]
	if !ok {
		t.Fatalf("%s: %q is no exit status", d.call, d.status)
	}
	out, said := run(t, want, argv...)
	for name, dir := range places {
		out = strings.ReplaceAll(out, dir, name)
	}
	for _, c := range changing {
		out = regexp.MustCompile(c.pattern).ReplaceAllString(out, c.word)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	got := strings.TrimRight(strings.Join(lines, "\n"), "\n")
	if most, open := strings.CutSuffix(d.out, "…"); open && strings.HasPrefix(got, most) {
		return
	}
	if got != d.out {
		t.Errorf("%s prints %q, not %q\n%s", d.call, got, d.out, said)
	}
}

// The beginning of a long option stands for it, if that is clear.
func TestOptions_Abbreviated(t *testing.T) {
	place31(t)
	expect(t, 0, "4 3 1\n", "scr_flush_file", "--list-c")
	expect(t, 0, "3 1\n", "scr_flush_file", "--list-c", "--bef=4")
	expect(t, 0, "PFS\n", "scr_flush_file", "--loc", "3")
	expect(t, 0, "", "scr_flush_file", "--need", "1") // the other one is hidden
	run(t, 2, "scr_index", "--a-thing")
	run(t, 2, "scr_index", "--drop-", "x", "--dro", "y") // the second could be either
}

// A command by whose status scripts decide does without an option that it does not know.
func TestOptions_OfALaterVersion(t *testing.T) {
	place31(t)
	for _, x := range []struct {
		out    string
		status int
		argv   string
		bad    []string
	}{
		{"4 3 1\n", 0, "scr_flush_file --later --list-ckpt", []string{"--later"}},
		{"4 3 1\n", 0, "scr_flush_file --later=1 --list-ckpt --other value", []string{"--later=1", "--other"}},
		{"3 1\n", 0, "scr_flush_file --list-ckpt --before 4 -Z 9", []string{"-Z"}},
		{"2 3\n", 0, "scr_flush_file -oZ9", []string{"-Z9"}},
		{"PFS\n", 0, "scr_flush_file -d. -L3", nil},
		{"4\n", 0, "scr_nodes_file -Z -d .", []string{"-Z"}},
		{"4\n", 0, "scr_nodes_file --later --dir .", []string{"--later"}},
		{"", 1, "scr_should_exit --min-nodes 1 --later x -v", []string{"--later"}},
		{"no runs are left (--runs 0)\n", 0, "scr_should_exit --later --runs 0", []string{"--later"}},
		{"n1\n", 0, "scr_list_down_nodes --later -d n1 -- n1", []string{"--later"}},
		{"", 0, "scr_prerun --later -p .", []string{"--later"}},
	} {
		out, said := run(t, x.status, strings.Fields(x.argv)...)
		if out != x.out || strings.Count(said, "is not known and is ignored") != len(x.bad) {
			t.Errorf("%s: %q %q", x.argv, out, said)
		}
		for _, option := range x.bad {
			if !strings.Contains(said, "option "+option+" is not known") {
				t.Errorf("%s: %q", x.argv, said)
			}
		}
	}
	run(t, 2, "scr_index", "--later")
	run(t, 0, "scr_nodes_file", "--help")
	run(t, 0, "scr_nodes_file", "-h")
}

// The answer of a command that loops ask is to stop, when it does not know.
func TestShouldExit_InDoubt(t *testing.T) {
	place31(t)
	for _, argv := range [][]string{{"--runs", "x"}, {"argument"}, {"-p"}, {"-d", "n["}, {"-p", "/dev/null"}} {
		if out, said := run(t, 0, append([]string{"scr_should_exit"}, argv...)...); out != "" || said == "" {
			t.Errorf("%q: %q %q", argv, out, said)
		}
	}
	run(t, 1, "scr_should_exit", "--min-nodes", "1", "--runs", "-1")
	must(t, halt.End(".", ""))
	expect(t, 0, "the program has called SCR_Finalize\n", "scr_should_exit", "--min-nodes", "1")
	run(t, 0, "scr_prerun")
	run(t, 1, "scr_should_exit", "--min-nodes", "1")
}

// Every command says which goscr it is of.
func TestOptions_Version(t *testing.T) {
	want, _ := run(t, 0, "scr", "--version")
	for _, name := range []string{"scr_index", "scr_run", "kvtree_print", "scr_glob_hosts"} {
		expect(t, 0, want, name, "--version")
	}
	expect(t, 0, want, "scr", "kvtree_print", "--version")
}
