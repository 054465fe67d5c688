package main

import (
	"os"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/config"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestGenerated_IsNotStale(t *testing.T) {
	t.Chdir("..")
	source, err := values()
	if err != nil {
		t.Fatal(err)
	}
	if read(t, valuesFile) != string(source) {
		t.Error("values.go is not what parameters.go says; run go generate ./internal/config")
	}
	old := read(t, pageFile)
	if text, err := page(old); err != nil || text != old {
		t.Errorf("docs/config.md is not what parameters.go says; run go generate ./internal/config (%v)", err)
	}
}

func TestPage_WithoutATable(t *testing.T) {
	if _, err := page("# Parameters\n"); err == nil {
		t.Error("tables are lost without an error")
	}
}

// What is given as an example of a parameter sets it.
func TestExamples(t *testing.T) {
	rows := items()
	for _, p := range config.Parameters {
		rows = append(rows, row{p, p.Name, p.Name + "=" + p.Example})
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { example(t, r) })
	}
}

func example(t *testing.T, r row) {
	t.Helper()
	settings, err := config.ParseSettings("example", r.example)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	environ := func(variable string) (string, bool) {
		if variable == "SCR_PREFIX" && r.name != variable {
			return dir, true
		}
		return "", false
	}
	cfg, warnings, err := config.Load(nil, settings, environ)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		if strings.Contains(w, "unknown") {
			t.Error(w)
		}
	}
	kind, field, isField := strings.Cut(r.name, " ")
	switch {
	case strings.HasPrefix(r.name, "SCR_"):
		if _, source, _ := cfg.Lookup(r.name); source.Level != config.Program {
			t.Errorf("%s does not set it", r.example)
		}
	case cfg.Items(kind).Size() != 1:
		t.Errorf("%s sets no item", r.example)
	case isField:
		for _, item := range cfg.Items(kind).All() {
			if item.Text(field) == "" {
				t.Errorf("%s does not set it", r.example)
			}
		}
	}
}

func TestFieldName(t *testing.T) {
	for parameter, want := range map[string]string{
		"SCR_FLUSH": "Flush", "SCR_FLUSH_ASYNC_BW": "FlushAsyncBW", "SCR_JOB_ID": "JobID", "SCR_MPI_BUF_SIZE": "MPIBufSize",
		"SCR_CRC_ON_FLUSH": "CRCOnFlush", "SCR_WATCHDOG_TIMEOUT_PFS": "WatchdogTimeoutPFS", "SET_FAILURES": "SetFailures", "CKPT": "Ckpt",
	} {
		if got := fieldName(parameter); got != want {
			t.Errorf("%s: %s, want %s", parameter, got, want)
		}
	}
}
