package main

import (
	"os"
	"testing"
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
