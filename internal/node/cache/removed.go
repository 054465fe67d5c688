package cache

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/mpi"
)

// Removed reports whether somebody has removed directories of the running job, or the
// caller's filemap: a script that cleans up nodes, or a user. It is not collective.
func (k *Cache) Removed() bool {
	return k.lock == nil || k.parts.maps.New() || k.Node.Rank() == 0 &&
		(gone(filepath.Join(k.control, LockFile)) || slices.ContainsFunc(k.places.all[:len(k.Stores)], func(x *place) bool { return gone(x.dir) }))
}

// Remake makes again what Removed has missed, so that the job and later runs can use the
// cache of the node. It returns the datasets that have lost files, for Repair, except datasets that are not
// protected yet, and those that Restore checks later. It is collective; the error is agreed.
func (k *Cache) Remake() (damaged []*Cached, err error) {
	first, removed := k.Node.Rank() == 0, k.Removed()
	if first {
		if k.lock == nil || gone(filepath.Join(k.control, LockFile)) {
			k.lock.Release()
			k.lock, err = lockControl(k.Config, k.control, "")
		}
		err = cmp.Or(err, k.places.makeDirs(k.User, filepath.Base(k.control)))
	}
	if err := mpi.Agree(k.World, err); err != nil {
		return nil, err
	}
	if removed {
		k.Log.WarnFirst("directories of the running job were removed on node %s, %s or those of its caches: they are made again; does a script clean up there?", k.Log.Node, k.control)
	}
	if !first {
		k.lock.Release()
		k.lock, err = joinLock(filepath.Join(k.control, LockFile))
	}
	clear(k.parts.dirs)
	err = cmp.Or(err, k.parts.maps.Remake())
	for _, c := range k.list {
		err = cmp.Or(err, k.parts.makeDir(c.ID()))
	}
	if err := mpi.Agree(k.World, err); err != nil {
		return nil, err
	}
	if first {
		k.places.listStores(k.Config, k.control)
		if err := k.maps.tidy(); err != nil {
			k.Log.Warn("%v", err)
		}
	}
	lost := make([]int64, len(k.list))
	for i, c := range k.list {
		if c.Protected() && !c.Postponed() {
			lost[i] = one(k.damage(c) != none)
		}
	}
	k.World.Allreduce(lost, mpi.Max)
	for i, c := range k.list {
		if lost[i] == 1 {
			damaged = append(damaged, c)
		}
	}
	return damaged, nil
}
