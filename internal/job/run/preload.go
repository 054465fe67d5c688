package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

// preload.scr tells each node whose files to copy to its cache before a job starts:
//
//	NODE / <name> / FIRST = <rank>
//	                RANKS = <n>
//	RANKS = <n>      of the job
type layout struct {
	Nodes map[string]block `hash:"NODE"`
	Ranks int              `hash:"RANKS"`
}

const preloadFile = "preload.scr"

// block is the ranks that a node is to have.
type block struct {
	node  string
	First int `hash:"FIRST"`
	Ranks int `hash:"RANKS"`
}

// blocks divides the ranks of a job among nodes in the way of a launcher: by the slots of
// the nodes, if those are known; else as before, if there are as many nodes; else evenly.
func blocks(ranks int, nodes []string, slots map[string]int, before []snapshot.Node) (list []block) {
	even := (ranks + len(nodes) - 1) / len(nodes)
	for i, node := range nodes {
		b := block{node: node, Ranks: even}
		switch {
		case slots[node] > 0:
			b.Ranks = slots[node]
		case len(before) == len(nodes):
			b.Ranks = before[i].Ranks
		}
		if len(list) > 0 {
			last := list[len(list)-1]
			b.First = last.First + last.Ranks
		}
		if b.Ranks = min(b.Ranks, ranks-b.First); i == len(nodes)-1 {
			b.Ranks = ranks - b.First
		}
		if b.Ranks > 0 {
			list = append(list, b)
		}
	}
	return list
}

// Preload copies a checkpoint of the prefix directory to the caches of the nodes on which a
// job will start its ranks, all nodes at once. slots are those of a host file, nil if they
// are not known, and id is that of the job. If files of a node could not be copied, the
// error says why; the job can start all the same, and fetches them.
func (j *Job) Preload(ctx context.Context, s snapshot.Snapshot, r *snapshot.Record, nodes []string, slots map[string]int, id string) error {
	began := time.Now()
	if used := len(r.Nodes); used > 0 && used < len(nodes) && slots == nil {
		nodes = nodes[:used] // the others are spares
	}
	list := blocks(r.Ranks, nodes, slots, r.Nodes)
	all := layout{map[string]block{}, r.Ranks}
	nodes = nil
	for _, b := range list {
		all.Nodes[b.node] = b
		nodes = append(nodes, b.node)
	}
	path := filepath.Join(j.Prefix, prefix.Metadata, preloadFile)
	if err := hash.WriteShared(path, hash.Marshal(all)); err != nil {
		return err
	}
	defer os.Remove(path)
	base := j.CacheBases()[0]
	var dirs []string
	for _, b := range []string{j.ControlBases()[0], base} {
		dir, err := j.Below(ctx, b, "", id)
		if err != nil {
			return err
		}
		dirs = append(dirs, dir)
	}
	argv := []string{j.Tool, "preload", "--prefix", j.Prefix, "--id", fmt.Sprint(s.Seq), "--cntldir", dirs[0], "--cache", dirs[1], "--store", base}
	bytes, err := j.preloadAll(ctx, nodes, argv)
	if err == nil {
		j.Tell("checkpoint %d (%s): %s in the caches of %s after %.2f s", s.Seq, s.Name, report.Bytes(bytes), report.Count(len(nodes), "node"), time.Since(began).Seconds())
	}
	return err
}

// preloadAll runs a command on all nodes at the same time, this one included, and returns
// how many bytes they have copied.
func (j *Job) preloadAll(ctx context.Context, nodes, argv []string) (bytes int64, err error) {
	self, _ := os.Hostname() // "" is no node
	var own, rest []string
	for _, n := range nodes {
		if self != "" && here(n, self) {
			own = append(own, n)
		} else {
			rest = append(rest, n)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, group := range [][]string{own, rest} {
		if len(group) == 0 {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			answers := j.OnNodes(ctx, group, copyTime, argv...)
			mu.Lock()
			defer mu.Unlock()
			for _, node := range group {
				var n int64
				a := answers[node]
				if a.failed() {
					err = errors.Join(err, fmt.Errorf("%s: %s", node, a.lastLine()))
				} else if _, e := fmt.Sscanf(a.lastLine(), Preloaded, &n); e != nil {
					err = errors.Join(err, fmt.Errorf("%s: %s", node, a.lastLine()))
				}
				bytes += n
			}
		}()
	}
	wg.Wait()
	return bytes, err
}

// Preloaded is the format of the last line of scr_preload: the bytes that it has copied.
const Preloaded = "%d bytes"

// ToPreload returns the ranks whose files this node, whose name is self, is to copy, and the
// number of ranks of the job.
func ToPreload(dir, self string) (ranks []int, size int, err error) {
	h, err := hash.ReadFile(filepath.Join(dir, prefix.Metadata, preloadFile))
	if err != nil {
		return nil, 0, err
	}
	all := hash.As[layout](h)
	for node, b := range all.Nodes {
		if !here(node, self) {
			continue
		}
		for r := b.First; r < min(b.First+b.Ranks, all.Ranks); r++ {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) == 0 {
		return nil, 0, fmt.Errorf("%s names %s, and not this node, %s", preloadFile, strings.Join(slices.Sorted(maps.Keys(all.Nodes)), ", "), self)
	}
	slices.Sort(ranks)
	return ranks, all.Ranks, nil
}
