use pelton_gen::{choose::Seed, config::*, make};
use pelton_ir::{text, valid};
fn main() {
    let show: Option<u64> = std::env::args().nth(1).and_then(|s| s.parse().ok());
    let (mut bad, mut insts) = (0, 0);
    let mut ops = std::collections::BTreeMap::new();
    for seed in show.map_or(0..20000, |s| s..s + 1) {
        for promise in [Promise::Same, Promise::Nothing] {
            let m = make::module(&mut Seed(seed), &Config { promise, ..Config::DEFAULT });
            if show.is_some() {
                println!("{}", text::print(&m));
            }
            for (_, f) in m.functions.iter() {
                insts += f.insts().len();
                for (_, n) in f.insts() {
                    *ops.entry(n.op).or_insert(0) += 1;
                }
            }
            if let Err(e) = valid::validate(m) {
                bad += 1;
                if bad < 4 {
                    println!("seed {seed}\n{}", e.report("x", None, false));
                }
            }
        }
    }
    println!("bad {bad} insts {insts}");
    if show.is_none() {
        println!("{ops:?}");
    }
    for r in pelton_ir::op::TABLE {
        if !ops.contains_key(&r.op) {
            print!("{} ", r.name);
        }
    }
}
