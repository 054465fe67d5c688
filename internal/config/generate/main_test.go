package main

import (
	"bytes"
	"os"
	"testing"
)

func TestValues_AreNotStale(t *testing.T) {
	want, err := values()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../values.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("values.go is not what parameters.go says; run go generate ./internal/config")
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
