package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/internal/prefix"
)

// foresight reacts to predictions that nodes will fail.
type foresight struct {
	job     *Job
	alloc   *allocation
	moves   *migrations
	asked   time.Time               // when the predictors were asked last
	asking  chan []batch.Prediction // receives their answers; nil if they are not being asked
	moved   time.Time               // when a prediction last led to a migration
	reacted map[string]time.Time    // when a prediction about a node last led to anything
}

// foresee asks the predictors every SCR_PREDICT_SECONDS, in the background, and reacts to
// their answers.
func (f *foresight) foresee(ctx context.Context, now time.Time) {
	select {
	case list := <-f.asking:
		f.asking = nil
		for _, p := range list {
			f.react(ctx, 0, []string{p.Node}, p, now)
		}
	default:
	}
	if every := f.job.Config.PredictTime; every == 0 || f.asking != nil || now.Sub(f.asked) < every {
		return
	}
	f.asked, f.asking = now, make(chan []batch.Prediction, 1)
	nodes := f.alloc.up()
	answer := f.asking
	go func() { answer <- f.predictions(ctx, nodes, now) }()
}

// predictions returns what the resource manager and SCR_PREDICT_COMMAND say about nodes.
func (f *foresight) predictions(ctx context.Context, nodes []string, now time.Time) (list []batch.Prediction) {
	if p := batch.AsPredictor(f.job.Manager); p != nil {
		var err error
		if list, err = p.Predict(ctx, nodes, now); err != nil {
			f.job.Tell("%s does not predict failures: %v", f.job.Manager.Name(), err)
		}
	}
	if command := f.job.Config.PredictCommand; command != "" {
		a := locally(ctx, answerTime, []string{"sh", "-c", command})
		more, err := batch.ParsePredictions(a.Out)
		if a.failed() {
			err = fmt.Errorf("%s", a.lastLine())
		}
		if err != nil {
			f.job.Tell("SCR_PREDICT_COMMAND: %v", err)
		}
		list = append(list, more...)
	}
	return slices.DeleteFunc(list, func(p batch.Prediction) bool { return !slices.Contains(nodes, p.Node) })
}

// react does something about a prediction about nodes, once in SCR_PREDICT_HOLDOFF for each
// of them. id is that of the request of scr_migrate, 0 if there is none.
func (f *foresight) react(ctx context.Context, id int, nodes []string, p batch.Prediction, now time.Time) {
	refuse := func(why string) {
		if id != 0 {
			f.job.Tell("nodes %s are predicted to fail; nothing is done: %s", hostlist.Compress(nodes), why)
		}
		f.moves.answer(id, migration.Failed, why)
	}
	if least := f.job.Config.PredictAssurance; p.Assurance < least {
		refuse(fmt.Sprintf("the probability is %v, and SCR_PREDICT_ASSURANCE=%v", p.Assurance, least))
		return
	}
	if unknown := hostlist.Minus(nodes, f.alloc.nodes); len(unknown) > 0 {
		refuse(fmt.Sprintf("%s is not a node of the job, whose nodes are %s", unknown[0], hostlist.Compress(f.alloc.nodes)))
		return
	}
	fresh := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool {
		last, ok := f.reacted[n]
		return ok && now.Sub(last) < f.job.Config.PredictHoldoff
	})
	if len(fresh) == 0 {
		refuse("that was predicted before, less than SCR_PREDICT_HOLDOFF ago")
		return
	}
	hosts, err := f.alloc.hosts()
	if err == nil && f.moves.isBusy(id) {
		err = migration.ErrBusy
	}
	if err != nil { // the next prediction may come later
		refuse(err.Error())
		return
	}
	if f.reacted == nil {
		f.reacted = map[string]time.Time{}
	}
	for _, n := range fresh {
		f.reacted[n] = now
		f.alloc.suspectBecause(n, "predicted to fail: "+p.Why)
	}
	if fresh = hostlist.Intersection(fresh, hosts); len(fresh) == 0 {
		refuse("no rank runs there")
		return
	}
	f.carryOut(ctx, id, fresh, p, now)
}

// carryOut chooses a reaction to a prediction, and carries it out.
func (f *foresight) carryOut(ctx context.Context, id int, nodes []string, p batch.Prediction, now time.Time) {
	costs := f.moves.costs
	what := costs.React(p.Within)
	because := fmt.Sprintf("%s predicted to fail (%s)", hostlist.Compress(nodes), p.Why)
	if p.Within >= 0 {
		because += fmt.Sprintf(" in %v; a checkpoint takes %v, and a move %v", p.Within, costs.Checkpoint, costs.Move)
	}
	if what == recovery.Migrate && !f.moved.IsZero() && now.Sub(f.moved) < f.job.Config.PredictHoldoff {
		what = recovery.Checkpoint
		because += "; the last migration because of a prediction was less than SCR_PREDICT_HOLDOFF ago"
	}
	if what == recovery.Migrate {
		err := f.moves.begin(id, recovery.Wish{Off: nodes})
		if err == nil {
			f.moved = now
			f.job.Tell("%s: its ranks are moved", because)
			return
		}
		because += fmt.Sprintf("; a migration is not possible: %v", err)
		what = recovery.Checkpoint
	}
	text := because + ": a checkpoint is asked for"
	if what == recovery.Checkpoint {
		_, err := request.Ask(f.job.Prefix, f.alloc.id, request.NewAsker(), request.Wish{})
		f.job.warn(err)
	} else {
		text = because + ": what they have is copied to the prefix directory"
		go f.save(ctx, nodes)
	}
	f.job.Tell("%s", text)
	f.moves.answer(id, migration.Done, text)
}

// save copies what nodes have of the newest checkpoint that is only in the cache to the
// prefix directory, where a scavenge or the next run finds it if the nodes are lost.
func (f *foresight) save(ctx context.Context, nodes []string) {
	list, err := prefix.OnlyInCache(f.job.Prefix)
	if err != nil || len(list) == 0 {
		f.job.warn(err)
		return
	}
	d := list[len(list)-1]
	argv, err := f.job.copyCommand(ctx, d.ID)
	if err != nil {
		f.job.Tell("%v", err)
		return
	}
	if failed := f.job.copyRound(ctx, nodes, copyTime, argv); len(failed) == 0 {
		f.job.Tell("dataset %d (%s): what %s have is in the prefix directory", d.ID, d.Name, hostlist.Compress(nodes))
	}
}
