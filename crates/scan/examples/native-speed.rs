//! Measures the native engine: `native-speed RULES TEXT`, where RULES has one expression per line.

use std::sync::Arc;
use std::time::Instant;
use std::{env, fs};

use pelton_scan::engine::NativeEngine;
use pelton_scan::factor::extract_factors;
use pelton_scan::{Catalog, Expression};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(rules), Some(text)) = (arguments.next(), arguments.next()) else {
        return Err("usage: native-speed RULES TEXT".into());
    };
    let text = fs::read(text)?;
    let rules = fs::read_to_string(rules)?;
    let started = Instant::now();
    let expressions = rules.lines().map(Expression::parse).collect::<Result<Vec<_>, _>>()?;
    let factors: Vec<_> = expressions.iter().map(extract_factors).collect();
    println!("{} rules, factors after {:.2?}", factors.len(), started.elapsed());
    let started = Instant::now();
    let catalog = Arc::new(Catalog::build(&factors)?);
    println!("catalog built in {:.2?}", started.elapsed());
    for table in catalog.factors() {
        let (states, classes) = (table.state_count, table.class_count);
        println!("stage one: {states} states, {classes} classes, {} outputs", table.outputs.len());
    }
    let windows = catalog.windows();
    let always = windows.windows.iter().filter(|window| window.class_count == 0).count();
    println!(
        "stage two: {} branches, {always} without a window, {:.1} MB; {} class runs; lead {}, tail {}",
        windows.windows.len(),
        windows.next.len() as f64 * 2e-6,
        catalog.class_runs().len(),
        catalog.lead(),
        catalog.tail(),
    );
    let bytes = catalog.to_bytes();
    let started = Instant::now();
    assert_eq!(Catalog::from_bytes(&bytes)?, *catalog);
    println!("read from {:.1} MB in {:.2?}", bytes.len() as f64 * 1e-6, started.elapsed());
    let engine = NativeEngine::new(catalog);
    let mut out = Vec::new();
    for _ in 0..5 {
        out.clear();
        let started = Instant::now();
        engine.find(&text, 0..text.len(), &mut out);
        let seconds = started.elapsed().as_secs_f64();
        let megabytes = text.len() as f64 * 1e-6;
        println!("{:.0} MB/s, {:.1} candidates per MB", megabytes / seconds, out.len() as f64 / megabytes);
    }
    Ok(())
}
