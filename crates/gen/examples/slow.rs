use pelton_gen::{case::Case, choose::Seed, config::*, law};
use std::time::Instant;
fn main() {
    let from: u64 = std::env::args().nth(1).map_or(0, |s| s.parse().unwrap());
    let n: u64 = std::env::args().nth(2).map_or(20000, |s| s.parse().unwrap());
    let mut bad = 0;
    for seed in from..from + n {
        let case = Case::new(&mut Seed(seed), &Config::DEFAULT);
        let t = Instant::now();
        for (n, l) in [("schedules", law::schedules as law::Law), ("passes", law::passes)] {
            if let Err(e) = l(&case) { println!("{seed} {n} {e}"); bad += 1; }
        }
        if t.elapsed().as_millis() > 500 { println!("{seed} took {:?}", t.elapsed()); }
        if bad > 10 { break; }
    }
}
