package formats

import (
	"bytes"
	"database/sql"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/goscr/goscr/hash"
)

// saysFile, in the directory of a kind, says what all files in it say.
const saysFile = "says.txt"

// versions are the versions that the corpus has.
func versions(t testing.TB) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(corpus)
	must(t, err)
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, e.Name())
		}
	}
	return list
}

// kinds are the directories of a version.
func kinds(t testing.TB, version string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(corpus, version))
	must(t, err)
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, e.Name())
		}
	}
	return list
}

// Every file of every version says what it said when it was written.
func TestEveryFile(t *testing.T) {
	for _, version := range versions(t) {
		for _, kind := range kinds(t, version) {
			t.Run(version+"/"+kind, func(t *testing.T) {
				got := says(t, loadKind(t, version, kind))
				at := filepath.Join(corpus, version, kind, saysFile)
				if *update && !exists(t, at) {
					must(t, os.WriteFile(at, []byte(got), 0o666))
				}
				want, err := os.ReadFile(at)
				must(t, err)
				if got != string(want) {
					t.Errorf("the files say something else than %s: %s", at, firstDifference(got, string(want)))
				}
			})
		}
	}
}

// says is what all files of a tree say.
func says(t testing.TB, files tree) string {
	t.Helper()
	var b strings.Builder
	for _, name := range files.names() {
		fmt.Fprintf(&b, "== %s\n%s", name, tell(t, name, files[name]))
	}
	return b.String()
}

// tell is what one file says.
func tell(t testing.TB, name string, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	switch formatOf(name, data) {
	case hashFormat:
		h, err := hash.Decode(data)
		must(t, err)
		must(t, h.PrintKV(&b, 0))
	case redundancyFormat:
		h, n, err := hash.ReadFrom(bytes.NewReader(data), int64(len(data)))
		must(t, err)
		must(t, h.PrintKV(&b, 0))
		fmt.Fprintf(&b, "and %s\n", sum(data[n:]))
	case journalFormat:
		for _, record := range records(t, data) {
			must(t, record.PrintKV(&b, 0))
		}
	case databaseFormat:
		b.WriteString(dump(t, data))
	case textFormat: // of a directory without files there is nothing
		b.Write(append(bytes.TrimRight(data, "\n"), '\n'))
	default:
		fmt.Fprintln(&b, sum(data))
	}
	return b.String()
}

func sum(data []byte) string {
	return fmt.Sprintf("%d bytes, CRC-32 0x%08x", len(data), crc32.ChecksumIEEE(data))
}

// dump is the tables and rows of a database, but for times, and for the directory
// in which it was written, of which a job has a digest.
func dump(t testing.TB, data []byte) string {
	t.Helper()
	if bytes.HasPrefix(data, []byte("CREATE")) { // has been dumped
		return string(data)
	}
	at := filepath.Join(t.TempDir(), "database")
	must(t, os.WriteFile(at, data, 0o600))
	db, err := sql.Open("sqlite", at)
	must(t, err)
	defer db.Close()
	var b strings.Builder
	for _, table := range []string{"jobs", "events", "transfers"} {
		var made string
		must(t, db.QueryRow("SELECT sql FROM sqlite_master WHERE name = ?", table).Scan(&made))
		fmt.Fprintln(&b, made)
	}
	for _, query := range []string{
		"SELECT id, username, jobid, jobname, cluster, length(prefix) > 0, length(digest) FROM jobs ORDER BY id",
		"SELECT id, job_id, length(time), host, type, dset, name, start, secs, note FROM events ORDER BY id",
		"SELECT id, job_id, length(time), host, type, dset, name, start, secs, from_dir, to_dir, bytes, files FROM transfers ORDER BY id",
	} {
		rows, err := db.Query(query)
		must(t, err)
		columns, err := rows.Columns()
		must(t, err)
		for rows.Next() {
			row := make([]any, len(columns))
			for i := range row {
				row[i] = new(any)
			}
			must(t, rows.Scan(row...))
			for i := range row {
				fmt.Fprintf(&b, "%v|", *row[i].(*any))
			}
			b.WriteByte('\n')
		}
		must(t, rows.Close())
	}
	return b.String()
}
