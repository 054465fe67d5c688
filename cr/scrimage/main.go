//go:build mpi

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/goscr/goscr/cr/image"
	"github.com/goscr/goscr/cr/inside"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/system"
)

const usage = `usage: scr_image PROGRAM [ARGUMENT...]

Starts a program on each rank, which must not use MPI, and saves and restores its process by the
commands SCR_CR_IMAGE and SCR_CR_IMAGE_RESTORE. Use it with a launcher: mpirun -n 4 scr_image ./app`

func main() {
	if len(os.Args) < 2 || os.Args[1] == "-h" || os.Args[1] == "--help" {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	err := mpi.Try(func() error { return run(os.Args[1:]) })
	if err == nil {
		return
	}
	status := 1
	if failed := (*image.Failed)(nil); errors.As(err, &failed) {
		status = failed.Status
		fmt.Fprintf(os.Stderr, "scr_image: %v\n", err)
	} else if system.Rank() <= 0 {
		fmt.Fprintf(os.Stderr, "scr_image: %v\n", err)
	}
	os.Exit(status) // the launcher ends the other ranks
}

func run(argv []string) (err error) {
	if err := system.Init(); err != nil {
		return err
	}
	world, err := system.World()
	if err != nil {
		return err
	}
	session, err := session.Init(world, session.Options{})
	if err != nil {
		return err
	}
	commands, err := commandsOf(session)
	if err == nil {
		err = commands.Check(context.Background())
	}
	scratch := ""
	if err == nil {
		scratch, err = os.MkdirTemp("", "goscr-image.")
	}
	if err := session.Agree(err); err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	p := image.NewProgram(argv, commands, scratch)
	endWith(p, scratch)
	job := image.Job{World: world, Session: session, Program: p, Pause: 100 * time.Millisecond, Grace: 10 * time.Second}
	if err := job.Run(); err != nil {
		return err
	}
	if err := session.Finalize(); err != nil {
		return err
	}
	world.Free()
	return system.Finalize()
}

func commandsOf(s *session.Session) (c image.Commands, err error) {
	var values [3]string
	for i, name := range []string{"SCR_CR_IMAGE", "SCR_CR_IMAGE_RESTORE", "SCR_CR_LIMIT_SECONDS"} {
		if values[i], _, err = s.Query(name); err != nil {
			return c, err
		}
	}
	if values[2] == "" {
		values[2] = inside.LimitSeconds
	}
	limit, err := strconv.ParseFloat(values[2], 64)
	if err != nil {
		return c, err
	}
	return image.New(values[0], values[1], time.Duration(limit*float64(time.Second)))
}

// endWith ends the program and removes scratch when a signal ends this process. If it is killed, the
// kernel kills the program, but not the processes that the program has started.
func endWith(p *image.Program, scratch string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		s := (<-signals).(syscall.Signal)
		p.Abort()
		os.RemoveAll(scratch)
		signal.Reset(s)
		_ = syscall.Kill(os.Getpid(), s)
	}()
}
