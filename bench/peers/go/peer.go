// The Go peers of bench/run library: golang.org/x/time/rate and github.com/juju/ratelimit.
//
// Run as `peer xtime` or `peer juju`. Each line of input is "admit|refuse THREADS OPS"; the answer
// is "ELAPSED_NS ADMITTED" for OPS calls in all, spread over THREADS goroutines.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/juju/ratelimit"
	"golang.org/x/time/rate"
)

// Calls the limiter n times and counts the admitted. A loop for each limiter, so that neither pays
// for an indirect call.
type loop func(n int) (admitted int)

func xtime(limiter *rate.Limiter) loop {
	return func(n int) (admitted int) {
		for i := 0; i < n; i++ {
			if limiter.Allow() {
				admitted++
			}
		}
		return
	}
}

func juju(bucket *ratelimit.Bucket) loop {
	return func(n int) (admitted int) {
		for i := 0; i < n; i++ {
			if bucket.TakeAvailable(1) == 1 {
				admitted++
			}
		}
		return
	}
}

func measure(run loop, threads, ops int) (elapsed time.Duration, admitted int) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	counts := make([]int, threads)
	for t := 0; t < threads; t++ {
		ready.Add(1)
		done.Add(1)
		go func(t int) {
			defer done.Done()
			ready.Done()
			<-start
			counts[t] = run(ops / threads)
		}(t)
	}
	ready.Wait()
	begin := time.Now()
	close(start)
	done.Wait()
	elapsed = time.Since(begin)
	for _, count := range counts {
		admitted += count
	}
	return
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: peer xtime|juju")
		os.Exit(2)
	}
	var admit, refuse loop
	switch os.Args[1] {
	case "xtime":
		admit = xtime(rate.NewLimiter(1e9, 1e9))
		refuse = xtime(rate.NewLimiter(rate.Every(1000*time.Hour), 1))
	case "juju":
		admit = juju(ratelimit.NewBucketWithRate(1e9, 1e9))
		refuse = juju(ratelimit.NewBucket(1000*time.Hour, 1))
	default:
		fmt.Fprintf(os.Stderr, "peer: no limiter is called %q\n", os.Args[1])
		os.Exit(2)
	}
	refuse(1) // takes the only token

	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var workload string
		var threads, ops int
		if _, err := fmt.Sscan(input.Text(), &workload, &threads, &ops); err != nil {
			fmt.Fprintf(os.Stderr, "peer: %q: %v\n", input.Text(), err)
			os.Exit(2)
		}
		run := admit
		if workload == "refuse" {
			run = refuse
		}
		elapsed, admitted := measure(run, threads, ops)
		fmt.Println(elapsed.Nanoseconds(), admitted)
	}
}
