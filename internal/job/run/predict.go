package run

import (
	"cmp"
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

// foresight is what is known of nodes that are likely to fail.
type foresight struct {
	asked    time.Time               // when the predictors were asked last
	asking   chan []batch.Prediction // receives their answers; nil if they are not being asked
	moved    time.Time               // when a prediction last led to a migration
	reacted  map[string]time.Time    // when a prediction about a node last led to anything
	measured recovery.Costs          // 0: not measured
}

// foresee asks the predictors every SCR_PREDICT_SECONDS, in the background, and reacts to
// their answers.
func (l *Loop) foresee(ctx context.Context, now time.Time) {
	f := &l.foresight
	select {
	case list := <-f.asking:
		f.asking = nil
		for _, p := range list {
			l.react(ctx, 0, []string{p.Node}, p, now)
		}
	default:
	}
	if every := l.Config.PredictTime; every == 0 || f.asking != nil || now.Sub(f.asked) < every {
		return
	}
	f.asked, f.asking = now, make(chan []batch.Prediction, 1)
	nodes := l.alloc.up()
	answer := f.asking
	go func() { answer <- l.predictions(ctx, nodes, now) }()
}

// predictions returns what the resource manager and SCR_PREDICT_COMMAND say about nodes.
func (l *Loop) predictions(ctx context.Context, nodes []string, now time.Time) (list []batch.Prediction) {
	if p := batch.AsPredictor(l.Manager); p != nil {
		var err error
		if list, err = p.Predict(ctx, nodes, now); err != nil {
			l.Tell("%s does not predict failures: %v", l.Manager.Name(), err)
		}
	}
	if command := l.Config.PredictCommand; command != "" {
		a := locally(ctx, answerTime, []string{"sh", "-c", command})
		more, err := batch.ParsePredictions(a.Out)
		if a.failed() {
			err = fmt.Errorf("%s", a.lastLine())
		}
		if err != nil {
			l.Tell("SCR_PREDICT_COMMAND: %v", err)
		}
		list = append(list, more...)
	}
	return slices.DeleteFunc(list, func(p batch.Prediction) bool { return !slices.Contains(nodes, p.Node) })
}

// react does something about a prediction about nodes, once in SCR_PREDICT_HOLDOFF for each
// of them. id is that of the request of scr_migrate, 0 if there is none.
func (l *Loop) react(ctx context.Context, id int, nodes []string, p batch.Prediction, now time.Time) {
	f := &l.foresight
	refuse := func(why string) {
		if id != 0 {
			l.Tell("nodes %s are predicted to fail; nothing is done: %s", hostlist.Compress(nodes), why)
		}
		l.answer(id, migration.Failed, why)
	}
	if least := l.Config.PredictAssurance; p.Assurance < least {
		refuse(fmt.Sprintf("the probability is %v, and SCR_PREDICT_ASSURANCE=%v", p.Assurance, least))
		return
	}
	if unknown := hostlist.Minus(nodes, l.alloc.nodes); len(unknown) > 0 {
		refuse(fmt.Sprintf("%s is not a node of the job, whose nodes are %s", unknown[0], hostlist.Compress(l.alloc.nodes)))
		return
	}
	fresh := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool {
		last, ok := f.reacted[n]
		return ok && now.Sub(last) < l.Config.PredictHoldoff
	})
	if len(fresh) == 0 {
		refuse("that was predicted before, less than SCR_PREDICT_HOLDOFF ago")
		return
	}
	hosts, err := l.alloc.hosts()
	if err == nil && (l.move != nil || id == 0 && l.isAsked()) {
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
		l.alloc.suspectBecause(n, "predicted to fail: "+p.Why)
	}
	if fresh = hostlist.Intersection(fresh, hosts); len(fresh) == 0 {
		refuse("no rank runs there")
		return
	}
	l.carryOut(ctx, id, fresh, p, now)
}

// carryOut chooses a reaction to a prediction, and carries it out.
func (l *Loop) carryOut(ctx context.Context, id int, nodes []string, p batch.Prediction, now time.Time) {
	f := &l.foresight
	costs := recovery.Costs{Checkpoint: cmp.Or(f.measured.Checkpoint, recovery.Assumed.Checkpoint), Move: cmp.Or(f.measured.Move, recovery.Assumed.Move)}
	what := costs.React(p.Within)
	because := fmt.Sprintf("%s predicted to fail (%s)", hostlist.Compress(nodes), p.Why)
	if p.Within >= 0 {
		because += fmt.Sprintf(" in %v; a checkpoint takes %v, and a move %v", p.Within, costs.Checkpoint, costs.Move)
	}
	if what == recovery.Migrate && !f.moved.IsZero() && now.Sub(f.moved) < l.Config.PredictHoldoff {
		what = recovery.Checkpoint
		because += "; the last migration because of a prediction was less than SCR_PREDICT_HOLDOFF ago"
	}
	if what == recovery.Migrate {
		err := l.beginMigration(id, recovery.Wish{Off: nodes})
		if err == nil {
			f.moved = now
			l.Tell("%s: its ranks are moved", because)
			return
		}
		because += fmt.Sprintf("; a migration is not possible: %v", err)
		what = recovery.Checkpoint
	}
	text := because + ": a checkpoint is asked for"
	if what == recovery.Checkpoint {
		if _, err := request.Ask(l.Prefix, l.alloc.id, request.NewAsker(), request.Wish{}); err != nil {
			l.Tell("%v", err)
		}
	} else {
		text = because + ": what they have is copied to the prefix directory"
		go l.save(ctx, nodes)
	}
	l.Tell("%s", text)
	l.answer(id, migration.Done, text)
}

// save copies what nodes have of the newest checkpoint that is only in the cache to the
// prefix directory, where a scavenge or the next run finds it if the nodes are lost.
func (l *Loop) save(ctx context.Context, nodes []string) {
	list, err := prefix.OnlyInCache(l.Prefix)
	if err != nil {
		l.Tell("%v", err)
		return
	}
	if len(list) == 0 {
		return
	}
	d := list[len(list)-1]
	argv, err := l.copyCommand(ctx, d.ID)
	if err != nil {
		l.Tell("%v", err)
		return
	}
	if failed := l.copyRound(ctx, nodes, copyTime, argv); len(failed) == 0 {
		l.Tell("dataset %d (%s): what %s have is in the prefix directory", d.ID, d.Name, hostlist.Compress(nodes))
	}
}
