// Preempt prints whether a goroutine that computes without calling a function is interrupted
// when another one becomes ready to run.
package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

var done atomic.Bool

func compute() {
	sum := 0
	for i := range 1 << 30 {
		sum += i * i
	}
	done.Store(sum != 0)
}

func main() {
	runtime.GOMAXPROCS(1)
	go compute()
	time.Sleep(time.Millisecond)
	fmt.Println("interrupted:", !done.Load())
}
