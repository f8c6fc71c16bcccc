use pelton::device::open;
use pelton::{Deadline, Geometry, Opcode, Patience, Session, Spec, Task};
use std::time::{Duration, Instant};
fn main() {
    let arg = |k: usize, d: &str| std::env::args().nth(k).unwrap_or(d.into());
    let name = arg(1, "cpu");
    let producers: u32 = arg(2, "1").parse().unwrap();
    let batch: u32 = arg(3, "256").parse().unwrap();
    let slots: u32 = arg(4, "65536").parse().unwrap();
    let device = open(&name).unwrap();
    let add = Opcode::user(8).unwrap();
    let mut g = Geometry::new(slots);
    if let Ok(n) = arg(5, "").parse() { g = g.groups(n); }
    let spec = Spec::new(g).producers(producers).handler(add, |slot| {
        let (at, by) = (slot.arg(0), slot.arg(1));
        let sum = slot.atomic_add(at, by);
        slot.finish(sum);
    });
    let t = Instant::now();
    let session = Session::launch(&device, &spec).unwrap();
    println!("launch {:?}, groups {} lanes {}", t.elapsed(), session.layout().groups, session.layout().lanes);
    // latency
    {
        let mut p = session.producer(0).unwrap();
        let mut lat = Vec::new();
        for k in 0..20000u32 {
            let t = Instant::now();
            let mut ticket = p.submit(Task::new(add).args([k & 1023, 0])).unwrap();
            ticket.wait(Deadline::after_ms(5000)).unwrap();
            lat.push(t.elapsed().as_nanos());
        }
        lat.sort();
        println!("round trip p50 {} p99 {} p999 {} ns", lat[10000], lat[19800], lat[19980]);
    }
    let start = Instant::now();
    let total: u64 = std::thread::scope(|s| {
        let threads: Vec<_> = (0..producers).map(|_| { let session = &session; s.spawn(move || {
            let mut p = session.producer(0).unwrap().patience(Patience::Endless);
            let mut n = 0u64;
            while start.elapsed() < Duration::from_secs(2) {
                for _ in 0..16 {
                    drop(p.submit_all((0..batch).map(|k| Task::new(add).args([(n as u32 + k) & 1023, 1]))).unwrap());
                    n += u64::from(batch);
                }
            }
            n
        })}).collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    session.quiesce(Deadline::after_ms(5000)).unwrap();
    let wall = start.elapsed();
    let sum: u64 = session.view::<u32>(0, "data").unwrap().all().unwrap().iter().map(|x| u64::from(*x)).sum();
    println!("{name} producers {producers} batch {batch}: {:.1} M tasks/s, sum {}", total as f64 / wall.as_secs_f64() / 1e6, if sum == total { "right" } else { "WRONG" });
    println!("{}", session.snapshot().unwrap());
    let t = Instant::now();
    println!("{:?} in {:?}", session.stop().unwrap().total(), t.elapsed());
}
