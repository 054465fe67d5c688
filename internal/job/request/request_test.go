package request

import (
	"os"
	"path/filepath"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func directory(t *testing.T) string {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".scr"), 0o700))
	return dir
}

func begin(t *testing.T, dir, job string) *Answers {
	t.Helper()
	a, err := Begin(dir, Job{ID: job}, true)
	must(t, err)
	t.Cleanup(a.Close)
	return a
}

func ask(t *testing.T, dir, job, asker string, wish Wish) int {
	t.Helper()
	id, err := Ask(dir, job, asker, wish)
	must(t, err)
	return id
}

func wanted(t *testing.T, a *Answers, want bool) {
	t.Helper()
	if got, err := a.Wanted(); got != want || err != nil {
		t.Errorf("wanted: %v, %v", got, err)
	}
}

// is fails the test unless a request is in a state; "" if there is none.
func is(t *testing.T, dir string, id int, want State) Request {
	t.Helper()
	r, _, err := Read(dir, id)
	if err != nil || r.State != want {
		t.Errorf("request %d: %+v, %v, want %q", id, r, err, want)
	}
	return r
}

func TestAnswers_OneAfterTheOther(t *testing.T) {
	dir := directory(t)
	if Alive(dir) {
		t.Error("a job is alive")
	}
	a := begin(t, dir, "job")
	if !Alive(dir) {
		t.Error("no job is alive")
	}
	wanted(t, a, false)
	first := ask(t, dir, "", "x", Wish{})
	if again := ask(t, dir, "", "y", Wish{Term: true}); again != first {
		t.Errorf("two requests at a time are %d and %d", first, again)
	}
	is(t, dir, first, Requested)
	wanted(t, a, true)
	is(t, dir, first, Pending)
	if joined := ask(t, dir, "", "z", Wish{Stop: true}); joined != first {
		t.Errorf("one that comes before the checkpoint is %d", joined)
	}
	wanted(t, a, true)
	wish, err := a.Start(7, "seven")
	must(t, err)
	if wish != (Wish{Term: true, Stop: true}) {
		t.Errorf("%+v", wish)
	}
	second := ask(t, dir, "", "late", Wish{})
	if second == first {
		t.Error("one that comes after the checkpoint has begun has joined it")
	}
	wanted(t, a, false)
	must(t, a.Reach(6, InCache, 1)) // another dataset
	is(t, dir, first, Running)
	must(t, a.Reach(7, InCache, 10))
	must(t, a.Reach(7, Flushing, 10))
	must(t, a.Reach(7, Finished, 10))
	if r := is(t, dir, first, Finished); r.Dataset != 7 || r.Name != "seven" || r.Size != 10 || len(r.Askers) != 3 {
		t.Errorf("%+v", r)
	}
	must(t, a.Fail(7, "too late"))
	is(t, dir, first, Finished)
	wanted(t, a, true)
	wish, err = a.Start(8, "eight")
	must(t, err)
	if wish != (Wish{}) {
		t.Errorf("%+v", wish)
	}
	must(t, a.Fail(8, "no room"))
	if r := is(t, dir, second, Failed); r.Reason != "no room" {
		t.Errorf("%+v", r)
	}
	wanted(t, a, false)
	must(t, a.End("the end"))
	if Alive(dir) {
		t.Error("the job is alive after its end")
	}
}

func TestTakeBack(t *testing.T) {
	dir := directory(t)
	a := begin(t, dir, "job")
	back := func(id int, asker string, want bool) {
		t.Helper()
		if done, err := TakeBack(dir, id, asker); done != want || err != nil {
			t.Errorf("%s takes %d back: %v, %v", asker, id, done, err)
		}
	}
	id := ask(t, dir, "", "x", Wish{Term: true})
	ask(t, dir, "", "y", Wish{})
	back(id, "x", true)
	if r := is(t, dir, id, Requested); r.Wish().Term {
		t.Error("what it wanted stays")
	}
	wanted(t, a, true)
	back(id, "y", true)
	is(t, dir, id, "")
	wanted(t, a, false)
	if wish, err := a.Start(1, "one"); err != nil || wish != (Wish{}) || a.Dataset() != 0 {
		t.Error("a checkpoint of the program's own answers a request that was taken back")
	}
	id = ask(t, dir, "", "x", Wish{})
	if _, err := a.Start(2, "two"); err != nil || !a.Writes(2) { // the program does not ask
		t.Error(err, a.now)
	}
	back(id, "x", false)
	is(t, dir, id, Running)
}

// A rank that keeps the job from answering refuses requests, whatever the job's rank 0 works at.
func TestRefuse(t *testing.T) {
	dir := directory(t)
	must(t, Refuse(dir, "job", "rank 2 is late"))
	a := begin(t, dir, "job")
	id := ask(t, dir, "job", "x", Wish{Stop: true})
	other := ask(t, dir, "another", "y", Wish{})
	if _, err := a.Start(4, "four"); err != nil || !a.Stops() {
		t.Fatal(err, a.now)
	}
	must(t, Refuse(dir, "job", "rank 2 is late"))
	if r := is(t, dir, id, Failed); r.Reason != "rank 2 is late" {
		t.Errorf("%+v", r)
	}
	is(t, dir, other, Requested)
	must(t, a.Reach(4, Finished, 100))
	if r := is(t, dir, id, Failed); r.Reason != "rank 2 is late" || a.Stops() || a.Writes(4) {
		t.Errorf("%+v %+v", r, a.now)
	}
}

// A request that is refused after rank 0 has read it, and before rank 0 answers, has no effect.
func TestRefuse_JustBeforeTheAnswer(t *testing.T) {
	for _, asks := range []bool{false, true} { // whether the program asks if a checkpoint is wanted
		dir := directory(t)
		a := begin(t, dir, "job")
		id := ask(t, dir, "job", "x", Wish{Term: true, Stop: true})
		must(t, a.look())
		if a.now.ID != id || a.now.State != Requested {
			t.Fatalf("%+v", a.now)
		}
		must(t, Refuse(dir, "job", "rank 2 is late"))
		var err error
		a.seen, err = stat(Path(dir)) // as if it had been refused after the next look
		must(t, err)
		if asks {
			wanted(t, a, false)
		} else if wish, err := a.Start(4, "four"); err != nil || wish != (Wish{}) || a.Stops() || a.Writes(4) {
			t.Errorf("%+v, %v; %+v", wish, err, a.now)
		}
		if r := is(t, dir, id, Failed); r.Reason != "rank 2 is late" {
			t.Errorf("%+v", r)
		}
		next := ask(t, dir, "job", "x", Wish{Term: true})
		wanted(t, a, true)
		if wish, err := a.Start(5, "five"); err != nil || wish != (Wish{Term: true}) || !a.Writes(5) {
			t.Errorf("the next request: %+v, %v; %+v", wish, err, a.now)
		}
		is(t, dir, next, Running)
	}
}

// Requests for other jobs are not answered; nor are those of earlier runs.
func TestBegin(t *testing.T) {
	dir := directory(t)
	other, mine := ask(t, dir, "other", "x", Wish{Term: true}), ask(t, dir, "job", "y", Wish{Term: true})
	if other == mine {
		t.Error("requests for two jobs are one")
	}
	a := begin(t, dir, "job")
	wanted(t, a, false)
	is(t, dir, mine, "")
	if id := ask(t, dir, "other", "x", Wish{}); id <= mine {
		t.Errorf("id %d again", id)
	}
	wanted(t, a, false)
	if r := is(t, dir, mine+1, Failed); r.Reason != "the job that runs here is job" {
		t.Errorf("%+v", r)
	}
	second := begin(t, dir, "job") // at the same time, where only one can answer
	id := ask(t, dir, "job", "y", Wish{})
	wanted(t, second, false)
	wanted(t, a, true)
	a.Close()
	second.seen = version{}
	wanted(t, second, true)
	must(t, second.End("it has ended"))
	if r := is(t, dir, id, Failed); r.Reason != "it has ended" {
		t.Errorf("%+v", r)
	}
}

func TestAsk_ForgetsOldOnes(t *testing.T) {
	dir := directory(t)
	a := begin(t, dir, "job")
	for i := 1; i <= keep+5; i++ {
		ask(t, dir, "", "x", Wish{})
		_, err := a.Start(i, "x")
		must(t, err)
		must(t, a.Reach(i, Finished, 0))
	}
	is(t, dir, 1, "")
	is(t, dir, 5, Finished)
	is(t, dir, keep+5, Finished)
}

func TestNil(t *testing.T) {
	var a *Answers
	wanted(t, a, false)
	_, err := a.Start(1, "")
	must(t, err)
	must(t, a.Reach(1, Finished, 0))
	must(t, a.End(""))
	if a.Dataset() != 0 {
		t.Error("a dataset")
	}
}
