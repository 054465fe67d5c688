package database

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// On a loaded machine a database may take long.
func TestMain(m *testing.M) {
	limit, grace = time.Hour, time.Hour
	os.Exit(m.Run())
}

func open(t *testing.T, at eventlog.Database, debug io.Writer) *DB {
	t.Helper()
	db, err := Open(at, debug)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// rows returns the rows that a query finds, one on each line, columns separated by |.
func rows(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	r, err := db.Query(query)
	must(t, err)
	defer r.Close()
	columns, err := r.Columns()
	must(t, err)
	var b strings.Builder
	for r.Next() {
		values := make([]sql.NullString, len(columns))
		to := make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		must(t, r.Scan(to...))
		for i, v := range values {
			if i > 0 {
				b.WriteByte('|')
			}
			if v.Valid {
				b.WriteString(v.String)
			} else {
				b.WriteString("NULL")
			}
		}
		b.WriteByte('\n')
	}
	must(t, r.Err())
	return b.String()
}

var (
	when = time.Date(2026, 11, 21, 0, 1, 55, 250e6, time.FixedZone("", 3600))
	job  = eventlog.Job{Host: "node0", User: "user1", ID: "job1", Name: "heat", Prefix: "/p"}
)

// tellAll writes records with all fields set, and with none.
func tellAll(t *testing.T, db *DB) {
	t.Helper()
	seconds := 1.5
	other := job
	other.Host, other.Cluster = "node1", "c"
	for _, r := range []eventlog.Record{
		{Time: when, Job: job, Type: "FULL", Note: `it's "quoted"; é 世 🙂`, Dataset: 3, Name: "ckpt.3", Start: when.Add(-time.Hour), Seconds: &seconds},
		{Time: when, Job: job, Type: "EMPTY"},
		{Time: when, Job: other, Type: "OTHER"},
		{Time: when, Job: job, Type: "FLUSH", Transfer: true, From: "/dev/shm", To: "/p", Dataset: 3, Name: "ckpt.3",
			Start: when, Seconds: &seconds, Bytes: eventlog.Count(1 << 50), Files: eventlog.Count(0)},
		{Time: when, Job: job, Type: "BARE", Transfer: true},
	} {
		must(t, db.Write(r))
	}
}

const (
	allEvents = `user1|job1|heat|NULL|/p|node0|FULL|it's "quoted"; é 世 🙂|3|ckpt.3|1.5
user1|job1|heat|NULL|/p|node0|EMPTY|NULL|NULL|NULL|NULL
user1|job1|heat|c|/p|node1|OTHER|NULL|NULL|NULL|NULL
`
	selectEvents = "SELECT username, jobid, jobname, cluster, prefix, host, type, note, dset, name, secs " +
		"FROM events JOIN jobs ON jobs.id = job_id ORDER BY events.id"
	allTransfers = `FLUSH|/dev/shm|/p|3|ckpt.3|1.5|1125899906842624|0
BARE|NULL|NULL|NULL|NULL|NULL|NULL|NULL
`
	selectTransfers = "SELECT type, from_dir, to_dir, dset, name, secs, bytes, files FROM transfers ORDER BY id"
)

func TestDB_SQLite(t *testing.T) {
	at := eventlog.Database{File: filepath.Join(t.TempDir(), "odd name?&%#.sqlite"), Password: "secret"}
	tellAll(t, open(t, at, nil))
	// Another process enters the same job again.
	at.Debug = true
	var shown bytes.Buffer
	db := open(t, at, &shown)
	must(t, db.Write(eventlog.Record{Time: when, Job: job, Type: "LATER"}))
	if _, err := os.Stat(at.File); err != nil {
		t.Error(err)
	}
	if got := rows(t, db.db, selectEvents); got != allEvents+"user1|job1|heat|NULL|/p|node0|LATER|NULL|NULL|NULL|NULL\n" {
		t.Errorf("%s", got)
	}
	if got := rows(t, db.db, selectTransfers); got != allTransfers {
		t.Errorf("%s", got)
	}
	if got := rows(t, db.db, "SELECT id FROM jobs"); got != "1\n2\n" {
		t.Errorf("jobs: %s", got)
	}
	got := rows(t, db.db, "SELECT cast(time AS TEXT), cast(start AS TEXT) FROM events WHERE id = 1")
	if want := "2026-11-20 23:01:55.250000|2026-11-20 22:01:55.250000\n"; got != want { // UTC
		t.Errorf("%s, want %s", got, want)
	}
	if s := shown.String(); !strings.Contains(s, "INSERT INTO events") || !strings.Contains(s, `"LATER"`) || strings.Contains(s, "secret") {
		t.Errorf("statements shown:\n%s", s)
	}
}

// Texts that a database would reject are changed so that it accepts them.
func TestDB_TakesAnything(t *testing.T) {
	db := open(t, eventlog.Database{File: filepath.Join(t.TempDir(), "db")}, nil)
	huge := strings.Repeat("é", 1<<20)
	j := eventlog.Job{Host: huge, User: huge, ID: huge, Name: huge, Cluster: huge, Prefix: huge}
	must(t, db.Write(eventlog.Record{Time: when, Job: j, Type: huge, Note: huge, Name: "a\xffb"}))
	want := fmt.Sprintf("%d|%d|a\uFFFDb\n", short, long)
	if got := rows(t, db.db, "SELECT length(type), length(note), name FROM events"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestDB_ManyProcesses(t *testing.T) {
	at := eventlog.Database{File: filepath.Join(t.TempDir(), "db")}
	const n, each = 8, 10
	var all sync.WaitGroup
	for range n {
		db := open(t, at, nil)
		all.Add(1)
		go func() {
			defer all.Done()
			for range each {
				if err := db.Write(eventlog.Record{Time: when, Job: job, Type: "A"}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	db := open(t, at, nil)
	if got := rows(t, db.db, "SELECT count(*), count(DISTINCT job_id) FROM events"); got != fmt.Sprintf("%d|1\n", n*each) {
		t.Error(got)
	}
}

func TestDB_Errors(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	closed.Close()
	for _, at := range []eventlog.Database{
		{File: filepath.Join(t.TempDir(), "no", "such", "dir")},
		{Host: closed.Addr().String(), User: "u", Name: "n", Password: "secret"},
		{Host: "/no/such/socket", User: "u", Name: "n", Password: "secret"},
	} {
		db := open(t, at, nil)
		err := db.Write(eventlog.Record{Time: when, Job: job, Type: "A"})
		if err == nil || !strings.Contains(err.Error(), at.File+at.Host) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", at, err)
		}
	}
}

// A real server, where there is one: see test/scripts/80-log.sh.
func TestDB_MySQL(t *testing.T) {
	socket := os.Getenv("GOSCR_TEST_MYSQL")
	if socket == "" {
		t.Skip("GOSCR_TEST_MYSQL does not name the socket of a server, with an empty database scrlog of user scr, password secret")
	}
	at := eventlog.Database{Host: socket, User: "scr", Password: "secret", Name: "scrlog"}
	db := open(t, at, nil)
	tellAll(t, db)
	must(t, open(t, at, nil).Write(eventlog.Record{Time: when, Job: job, Type: "EMPTY"}))
	if got := rows(t, db.db, selectEvents); got != allEvents+"user1|job1|heat|NULL|/p|node0|EMPTY|NULL|NULL|NULL|NULL\n" {
		t.Errorf("%s", got)
	}
	if got := rows(t, db.db, selectTransfers); got != allTransfers {
		t.Errorf("%s", got)
	}
	before := len(readAll(t, at, ""))
	for _, r := range odd() {
		must(t, db.Write(r))
	}
	if list := readAll(t, at, "/p"); len(list) != before+len(odd()) {
		t.Errorf("%d records are read of %d", len(list), before+len(odd()))
	} else if got := list[len(list)-2]; got.Type != "RUN_END" || got.Run.Signal != 9 || !got.Time.Equal(when) || got.Job.Name != odd()[0].Job.Name {
		t.Errorf("%+v", got)
	}
	must(t, db.exec(context.Background(), "DELETE FROM jobs WHERE jobname LIKE '<script>%'"))
	huge := strings.Repeat("é", 1<<20)
	j := eventlog.Job{Host: huge, User: huge, ID: huge, Name: huge, Cluster: huge, Prefix: huge}
	must(t, db.Write(eventlog.Record{Time: when, Job: j, Type: huge, Note: huge, Name: "a\xffb"}))
	if got := rows(t, db.db, "SELECT count(*) FROM jobs"); got != "3\n" {
		t.Errorf("%s jobs", got)
	}
	at.Password = "wrong"
	if err := open(t, at, nil).Write(eventlog.Record{Time: when, Job: job, Type: "A"}); err == nil || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("wrong password: %v", err)
	}
}

// feed returns the bytes that a job sends to the recorder.
func feed(t *testing.T, at eventlog.Database, records ...eventlog.Record) io.Reader {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	must(t, e.Encode(at))
	for _, r := range records {
		must(t, e.Encode(r))
	}
	return &b
}

func TestServe(t *testing.T) {
	at := eventlog.Database{File: filepath.Join(t.TempDir(), "db")}
	var records []eventlog.Record
	for range 100 {
		records = append(records, eventlog.Record{Time: when, Job: job, Type: "A"})
	}
	var said bytes.Buffer
	must(t, Serve(feed(t, at, records...), &said))
	if got := rows(t, open(t, at, nil).db, "SELECT count(*) FROM events"); got != "100\n" || said.Len() != 0 {
		t.Error(got, said.String())
	}
	// The job was killed while it wrote a record.
	cut, err := io.ReadAll(feed(t, at, records...))
	must(t, err)
	must(t, Serve(bytes.NewReader(cut[:len(cut)-5]), &said))
	if got := rows(t, open(t, at, nil).db, "SELECT count(*) FROM events"); got != "199\n" || said.Len() == 0 {
		t.Error(got, said.String())
	}
	for _, wrong := range []string{"", "no settings"} {
		if err := Serve(strings.NewReader(wrong), &said); err == nil {
			t.Errorf("%q is taken for settings", wrong)
		}
	}
}

// A database that does not exist when the job begins is used once it does.
func TestServe_TriesAgain(t *testing.T) {
	defer func(p time.Duration) { pause = p }(pause)
	pause = time.Millisecond
	dir := filepath.Join(t.TempDir(), "later")
	at := eventlog.Database{File: filepath.Join(dir, "db")}
	in, job1 := io.Pipe()
	out, said := io.Pipe()
	done := make(chan error)
	go func() { done <- Serve(in, said) }()
	go func() {
		_, err := io.Copy(job1, feed(t, at, eventlog.Record{Time: when, Job: job, Type: "EARLY"}))
		if err != nil {
			t.Error(err)
		}
	}()
	buf := make([]byte, 1000)
	n, err := out.Read(buf) // it has failed
	must(t, err)
	if !strings.Contains(string(buf[:n]), at.File) {
		t.Errorf("%s", buf[:n])
	}
	must(t, os.Mkdir(dir, 0o777))
	go io.Copy(io.Discard, out)
	db := open(t, at, nil)
	must(t, db.table(context.Background(), "events"))
	for rows(t, db.db, "SELECT type FROM events") != "EARLY\n" {
		time.Sleep(time.Millisecond)
	}
	must(t, job1.Close())
	must(t, <-done)
}

// When the job ends and the database still does not answer, the lost records are reported.
func TestServe_GivesUp(t *testing.T) {
	at := eventlog.Database{File: filepath.Join(t.TempDir(), "none", "db")}
	r := eventlog.Record{Time: when, Job: job, Type: "A"}
	var said bytes.Buffer
	must(t, Serve(feed(t, at, r, r, r), &said))
	if !strings.Contains(said.String(), "3 events from A on are not in the database") {
		t.Error(said.String())
	}
}

// odd has the records of phases and runs, with names that are HTML and SQL.
func odd() []eventlog.Record {
	seconds, status := 1.5, 137
	j := job
	j.Name = `<script>alert("x")</script>'); DROP TABLE events; --`
	return []eventlog.Record{
		{Time: when, Job: j, Type: "RUN_END", Note: "why", Start: when.Add(-time.Minute), Seconds: &seconds,
			Run: &eventlog.Run{Number: 2, Status: &status, Signal: 9, Nodes: 3, Ranks: 12, NodeList: "n[0-2]"}},
		{Time: when, Job: j, Type: "A", Note: j.Name},
		{Time: when, Job: j, Type: "FLUSH", Transfer: true, From: "/a", To: j.Name, Dataset: 3, Name: j.Name, Bytes: eventlog.Count(7), Files: eventlog.Count(2)},
		{Time: when, Job: j, Type: "ENCODE", Dataset: 3, Name: "x", Start: when, Bytes: eventlog.Count(5),
			Spread: &eventlog.Spread{Least: .25, Median: .5, Most: 1, Rank: 3, Node: `n'"<b>`}},
		{Time: when.Add(time.Microsecond), Job: j, Type: "FINALIZE_END"},
	}
}

func readAll(t *testing.T, at eventlog.Database, prefix string) (list []eventlog.Record) {
	t.Helper()
	must(t, Read(at, prefix, func(r eventlog.Record) error { list = append(list, r); return nil }))
	return list
}

// same compares records without the zones of their times.
func same(t *testing.T, got, want []eventlog.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, w := range want {
		w.Time, w.Start = w.Time.UTC(), w.Start.UTC()
		if !reflect.DeepEqual(got[i], w) {
			a, _ := json.Marshal(got[i])
			b, _ := json.Marshal(w)
			t.Errorf("%s\nwant %s", a, b)
		}
	}
}

func TestRead_SQLite(t *testing.T) {
	at := eventlog.Database{File: filepath.Join(t.TempDir(), "odd name?&%#.sqlite")}
	db := open(t, at, nil)
	for _, r := range odd() {
		must(t, db.Write(r))
	}
	want := odd()
	want = append(want[1:4:4], want[0], want[4]) // of one time, the end of a run is last
	same(t, readAll(t, at, ""), want)
	same(t, readAll(t, at, "/p"), want)
	same(t, readAll(t, at, "/q"), nil)
	if got := rows(t, db.db, "PRAGMA user_version"); got != "1\n" {
		t.Errorf("user_version %s", got)
	}
	must(t, db.exec(context.Background(), "PRAGMA user_version = 2"))
	if err := Read(at, "", nil); !errors.Is(err, ErrNoLog) || !strings.Contains(err.Error(), "version 2") {
		t.Error(err)
	}
}

func TestRead_NoLog(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "text": strings.Repeat("hello\n", 1000), "cut": "SQLite format 3\x00" + strings.Repeat("\x01", 200)} {
		at := eventlog.Database{File: filepath.Join(dir, name)}
		must(t, os.WriteFile(at.File, []byte(text), 0o600))
		if err := Read(at, "", func(eventlog.Record) error { return nil }); !errors.Is(err, ErrNoLog) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(at.File); err != nil || string(now) != text {
			t.Errorf("%s was changed", name)
		}
	}
	if err := Read(eventlog.Database{File: filepath.Join(dir, "none")}, "", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("reading has made a file")
	}
}

// Whatever is in a file, reading it as a database ends with an error or with records.
func FuzzRead(f *testing.F) {
	file := filepath.Join(f.TempDir(), "db")
	db, err := Open(eventlog.Database{File: file}, nil)
	must(f, err)
	for _, r := range odd() {
		must(f, db.Write(r))
	}
	must(f, db.Close())
	data, err := os.ReadFile(file)
	must(f, err)
	f.Add(data, 100, byte(7))
	f.Add(data[:len(data)/2], 4097, byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at int, to byte) {
		if len(data) > 0 {
			data = bytes.Clone(data)
			data[uint(at)%uint(len(data))] = to
		}
		path := filepath.Join(t.TempDir(), "db")
		must(t, os.WriteFile(path, data, 0o600))
		_ = Read(eventlog.Database{File: path}, "", func(r eventlog.Record) error {
			if line := r.Line(); strings.ContainsAny(line, "\n\x00\x1b") {
				t.Fatalf("%q is not a line", line)
			}
			return nil
		})
	})
}

// Where another user has put a link, no database is made.
func TestOpen_Link(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, ".scr"), 0o700), os.Symlink(victim, eventlog.DatabaseFile(dir))); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(eventlog.Database{File: eventlog.DatabaseFile(dir)}, nil); err == nil {
		d.Close()
		t.Error("no error")
	}
}
