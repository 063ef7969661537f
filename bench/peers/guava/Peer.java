// The Java peer of bench/run library: Guava's RateLimiter.
//
// Each line of input is "admit|refuse THREADS OPS"; the answer is "ELAPSED_NS ADMITTED" for OPS
// calls in all, spread over THREADS threads.

import com.google.common.util.concurrent.RateLimiter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;

public final class Peer {
  private static long loop(RateLimiter limiter, long n) {
    long admitted = 0;
    for (long i = 0; i < n; i++) {
      if (limiter.tryAcquire()) admitted++;
    }
    return admitted;
  }

  private static String measure(RateLimiter limiter, int threads, long ops) throws Exception {
    CountDownLatch ready = new CountDownLatch(threads);
    CountDownLatch start = new CountDownLatch(1);
    long[] counts = new long[threads];
    Thread[] workers = new Thread[threads];
    for (int t = 0; t < threads; t++) {
      int mine = t;
      workers[t] =
          new Thread(
              () -> {
                ready.countDown();
                try {
                  start.await();
                } catch (InterruptedException e) {
                  return;
                }
                counts[mine] = loop(limiter, ops / threads);
              });
      workers[t].start();
    }
    ready.await();
    long begin = System.nanoTime();
    start.countDown();
    for (Thread worker : workers) worker.join();
    long elapsed = System.nanoTime() - begin;
    long admitted = 0;
    for (long count : counts) admitted += count;
    return elapsed + " " + admitted;
  }

  public static void main(String[] args) throws Exception {
    RateLimiter admit = RateLimiter.create(1e9); // its burst is one second's worth: 1e9
    RateLimiter refuse = RateLimiter.create(1.0 / 3_600_000); // one each 1000 hours
    refuse.tryAcquire(); // puts it into debt for 1000 hours

    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = input.readLine()) != null; ) {
      String[] words = line.split(" ");
      System.out.println(
          measure(
              words[0].equals("refuse") ? refuse : admit,
              Integer.parseInt(words[1]),
              Long.parseLong(words[2])));
    }
  }
}
