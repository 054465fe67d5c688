package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/observe/account/page"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run executes a command line and fails the test unless it ends with status.
func run(t *testing.T, status int, argv ...string) (out, errors string) {
	t.Helper()
	var o, e bytes.Buffer
	if got := execute(argv, &context{in: strings.NewReader(""), out: &o, err: &e}); got != status {
		t.Errorf("%q: exit status %d, want %d\n%s%s", argv, got, status, o.String(), e.String())
	}
	return o.String(), e.String()
}

func TestNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "check")
	must(t, os.WriteFile(file, []byte("123456789"), 0o600))
	for _, argv := range [][]string{{"scr_crc32"}, {"/usr/bin/scr_crc32"}, {"scr", "crc32"}, {"scr", "scr_crc32"}, {"./scr", "crc32"}} {
		if out, _ := run(t, 0, append(argv, file)...); out != "cbf43926\n" {
			t.Errorf("%q: %q", argv, out)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, argv := range [][]string{{"scr"}, {"scr", "help"}, {"scr", "-h"}, {"scr", "--help"}} {
		out, _ := run(t, 0, argv...)
		for _, name := range []string{"index", "status", "run"} {
			if !regexp.MustCompile(`(?m)^ +` + name + ` +\w`).MatchString(out) {
				t.Errorf("%q does not say what %s does:\n%s", argv, name, out)
			}
		}
	}
	if out, _ := run(t, 0, "scr", "help"); len(regexp.MustCompile(`(?m)^  [a-z]+ +\w`).FindAllString(out, -1)) != 10 {
		t.Errorf("not ten commands:\n%s", out)
	}
	if out, _ := run(t, 0, "scr", "help", "--all"); !strings.Contains(out, "\n  crc32 ") || !strings.Contains(out, "\n  log_recorder ") {
		t.Errorf("not all commands:\n%s", out)
	}
	if out, _ := run(t, 0, "scr", "help", "status"); !strings.Contains(out, "usage: scr_status") {
		t.Errorf("not the help of status:\n%s", out)
	}
	if _, said := run(t, 2, "scr", "help", "stauts"); !strings.Contains(said, "did you mean status?") {
		t.Error(said)
	}
	if _, said := run(t, 2, "scr_run", "--restrt", "must", "mpirun", "true"); !strings.Contains(said, "option --restrt is not known") || !strings.Contains(said, "did you mean --restart?") {
		t.Error(said)
	}
	if _, said := run(t, 2, "scr_run", "-rc"); !strings.Contains(said, "option -rc needs a value") {
		t.Error(said)
	}
	if _, said := run(t, 2, "scr_run", "-n4", "mpirun", "true"); !strings.Contains(said, "option -n4 is not known; options of a launcher follow its name; see") {
		t.Error(said)
	}
	if _, said := run(t, 2, "scr_index", "--curent", "x"); !strings.Contains(said, "did you mean --current?") {
		t.Error(said)
	}
	links, _ := run(t, 0, "scr", "links")
	for _, name := range strings.Fields(links) {
		if out, _ := run(t, 0, name, "--help"); !strings.Contains(out, "usage: "+name) {
			t.Errorf("%s --help: %s", name, out)
		}
	}
	for _, want := range []string{"scr_index", "scr_print", "scr_print_hash_file", "scr_crc32"} {
		if !strings.Contains(links+"\n", want+"\n") {
			t.Errorf("no link %s", want)
		}
	}
	for _, argv := range [][]string{
		{"scr", "nothing"}, {"scr_nothing"}, {"other"}, {"scr", ""},
		{"scr_index", "--nothing"}, {"scr_index", "argument"}, {"scr_index", "-p"},
		{"scr_print"}, {"scr_print", "--what"}, {"scr_crc32"}, {"scr_crc32", "-z"},
	} {
		out, errors := run(t, 2, argv...)
		if out != "" || errors == "" {
			t.Errorf("%q: output %q, error %q", argv, out, errors)
		}
	}
}

func TestCRC32(t *testing.T) {
	dir := t.TempDir()
	a, b, none := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "none")
	must(t, os.WriteFile(a, nil, 0o600))
	must(t, os.WriteFile(b, bytes.Repeat([]byte{'x'}, 3<<20), 0o600))
	if out, _ := run(t, 0, "scr_crc32", a); out != "0\n" {
		t.Error(out)
	}
	out, _ := run(t, 0, "scr_crc32", a, b)
	if want := "0  " + a + "\n"; !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "  "+b+"\n") {
		t.Error(out)
	}
	for _, bad := range []string{none, dir} {
		if _, errors := run(t, 1, "scr_crc32", a, bad); !strings.Contains(errors, "scr_crc32: ") || !strings.Contains(errors, bad) {
			t.Error(errors)
		}
	}
}

func TestPrint(t *testing.T) {
	dir := t.TempDir()
	file, broken := filepath.Join(dir, "file"), filepath.Join(dir, "broken")
	h := hash.New()
	h.SetValue("KEY", "value")
	h.At("A", "B")
	h.At("A", "C")
	must(t, hash.WriteFile(file, h))
	must(t, os.WriteFile(broken, h.Encode()[:30], 0o600))
	if out, _ := run(t, 0, "scr_print", file); out != "A\n  B\n  C\nKEY = value\n" {
		t.Errorf("%q", out)
	}
	if out, _ := run(t, 0, "scr_print_hash_file", "--tree", file); out != "A\n  B\n  C\nKEY\n  value\n" {
		t.Errorf("%q", out)
	}
	if out, _ := run(t, 0, "scr_print", file, file); strings.Count(out, file+":\n") != 2 {
		t.Errorf("%q", out)
	}
	for _, bad := range []string{broken, dir, filepath.Join(dir, "none"), "/dev/null"} {
		if _, errors := run(t, 1, "scr_print", bad); !strings.Contains(errors, bad) {
			t.Errorf("%s: %q", bad, errors)
		}
	}
}

func TestIndex(t *testing.T) {
	dir := t.TempDir()
	if _, errors := run(t, 1, "scr_index", "-p", dir+"/nosuch"); !strings.Contains(errors, "the prefix directory "+dir+"/nosuch does not exist; -p ") {
		t.Errorf("%q", errors)
	}
	if out, errors := run(t, 0, "scr_index", "-p", dir); out != "" || !strings.Contains(errors, "no datasets in "+dir) {
		t.Errorf("%q %q", out, errors)
	}
	when := time.Now().Add(-3 * time.Hour).Truncate(time.Second) // no date: its age would be that of another dataset on some day
	flushed := when.Format("2006-01-02T15:04:05")
	must(t, prefix.UpdateIndex(dir, func(x *prefix.Index) error {
		for id, name := range []string{1: "one", 2: "two two", 3: "three", 10: "ten"} {
			if name != "" {
				x.Add(dataset.New(id, name, dataset.Checkpoint, id, dataset.Owner{}, when), id != 3, when)
			}
		}
		x.MarkFailed(1, "a test", when)
		return x.SetCurrent("two two")
	}))
	// It is also in the cache; another dataset of a number of the index, and one of none, are there only.
	at := func(id int, name string, when time.Time, places ...prefix.Location) {
		d := dataset.New(id, name, dataset.Checkpoint, id, dataset.Owner{JobID: "job 7", User: "anna"}, when)
		d.SetTotals(4, 3<<20)
		for _, p := range places {
			must(t, prefix.Locate(dir, d, p, true))
		}
	}
	now := time.Now()
	at(10, "ten", when, prefix.InCache)
	at(11, "eleven", now.Add(-8*24*time.Hour), prefix.InCache, prefix.Flushing)
	at(3, "another", now.Add(-5*time.Minute), prefix.InCache)
	at(12, "gone", now)
	want := []string{"DSET VALID FLUSHED CUR AGE SIZE JOB PLACE NAME", "11 - - 8.0days 3.0MiB job_7 cache,flushing eleven",
		"10 YES " + flushed + " AGE 0B - prefix,cache ten", "3 NO " + flushed + " AGE 0B - - three", "3 - - 300s 3.0MiB job_7 cache another",
		"2 YES " + flushed + " * AGE 0B - prefix two two", "1 NO " + flushed + " AGE 0B - prefix one"}
	age := strings.ReplaceAll(page.Span(now.Sub(when).Seconds()), " ", "")
	t.Setenv("SCR_PREFIX", dir)
	for _, argv := range [][]string{{"scr_index"}, {"scr_index", "-l"}, {"scr_index", "--list"}, {"scr", "index", "--prefix", dir}, {"scr_index", "-p", dir, "-l"}} {
		out, _ := run(t, 0, argv...)
		var got []string
		for line := range strings.Lines(out) {
			got = append(got, strings.Replace(strings.Join(strings.Fields(line), " "), " "+age+" ", " AGE ", 1))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q:\n%s", argv, out)
		}
	}
	why := "a restart from it failed on " + flushed + ": a test"
	if _, errors := run(t, 0, "scr_index"); errors != "dataset 1 (one): "+why+"\n" {
		t.Errorf("%q", errors)
	}
	out, _ := run(t, 0, "scr_index", "--list", "--json")
	var list []listed
	must(t, json.Unmarshal([]byte(out), &list))
	if e := list[len(list)-1]; e.ID != 1 || !e.Failed || e.Valid || e.Why != why {
		t.Errorf("%+v", e)
	}
	run(t, 0, "scr_index", "--current", "one") // tries it again
	if _, errors := run(t, 0, "scr_index"); errors != "" {
		t.Errorf("%q", errors)
	}
	path := filepath.Join(dir, ".scr/index.scr")
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)-1] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
	if _, errors := run(t, 1, "scr_index"); !strings.Contains(errors, path) {
		t.Error(errors)
	}
	if _, errors := run(t, 1, "scr_index", "-p", filepath.Join(dir, "none")); !strings.Contains(errors, "none") {
		t.Error(errors)
	}
}

func TestIndex_OfSCR(t *testing.T) {
	const samples = "../../testdata/scr-3.1/job/prefix"
	out, _ := run(t, 0, "scr_index", "-p", samples)
	if lines := strings.Split(out, "\n"); len(lines) != 5 || !strings.HasPrefix(lines[1], "   5 YES ") || !strings.Contains(lines[1], "   * ") || !strings.HasSuffix(lines[1], " 16.0KiB 112573 prefix,cache ckpt.5") {
		t.Errorf("%q", out)
	}
	files, err := filepath.Glob(samples + "/.scr/*/*")
	must(t, err)
	for _, f := range files {
		run(t, 0, "scr_print", f)
	}
	if len(files) < 9 {
		t.Errorf("%d files", len(files))
	}
}
