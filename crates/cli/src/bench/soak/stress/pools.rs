//! Whether everything that tasks have held is free again after the load `stress`.
//!
//! A snapshot says how many tasks there are, but not what the kernel has noted as free. So tasks that wait for an event
//! take everything at once, kind by kind: every cell of every producer, every cell for spawned tasks, and every instance of
//! graphs.

use std::time::Instant;

use pelton::telemetry::CellSnapshot;
use pelton::{Graph, Producer, Session, Task, Ticket};

use super::handlers::{HELD, StressOps};
use super::plan::StressPlan;
use super::{CELLS, INSTANCES_PER_PRODUCER, SPAWN_CELLS};
use crate::bench::flood::PATIENCE;
use crate::error::CliError;

/// Checks that nothing is under way.
pub(super) fn check_idle(session: &Session) -> Result<(), CliError> {
    let snapshot = session.snapshot()?;
    let slots = snapshot.occupancy;
    let wrong =
        |what: String| Err(CliError::Wrong(format!("the session is not idle after the last task: {what}")));
    if slots.published != 0 || snapshot.depth.iter().any(|depth| *depth != 0) {
        return wrong(format!("{slots:?}"));
    }
    let Some(cells) = snapshot.cells else { return Ok(()) };
    let graphs = graphs_now(&cells);
    let busy =
        [cells.used, cells.runnable, cells.waiting, cells.joining, cells.awaiting_events, cells.paused];
    if busy.iter().sum::<u64>() + cells.spawned_now + graphs != 0 || !cells.ready.is_empty() {
        return wrong(cells.to_string());
    }
    Ok(())
}

/// The number of launches of graphs that are under way.
fn graphs_now(cells: &CellSnapshot) -> u64 {
    cells.trees.as_ref().and_then(|trees| trees.graphs).unwrap_or(0)
}

/// Takes all cells and all instances at once, and gives them back.
pub(super) fn fill_pools(session: &Session, ops: &StressOps, plan: StressPlan) -> Result<(), CliError> {
    let event = plan.last_event();
    let mut producers = (0..plan.producers)
        .map(|index| Ok((plan.tenant(index), session.producer(plan.tenant(index))?.patience(PATIENCE))))
        .collect::<Result<Vec<(u32, Producer)>, CliError>>()?;
    let signal = |count: u32| {
        (0..plan.tenants())
            .try_for_each(|tenant| session.signal(tenant, event, count))
            .map_err(CliError::from)
    };
    let mut tickets = Vec::new();
    let sleep = Task::new(ops.sleeps).args([event, 1]);
    for (_, producer) in &mut producers {
        for _ in 0..CELLS {
            tickets.push(producer.submit(sleep)?);
        }
    }
    wait_until(session, u64::from(plan.producers * CELLS), |cells| cells.awaiting_events)?;
    signal(1)?;
    end_all(std::mem::take(&mut tickets))?;

    let hold = Task::new(ops.holds).args([event, 2]);
    for tenant in 0..plan.tenants() {
        let (_, producer) = &mut producers[tenant as usize];
        for _ in 0..SPAWN_CELLS / HELD {
            tickets.push(producer.submit(hold)?);
        }
    }
    wait_until(session, u64::from(plan.tenants() * SPAWN_CELLS), |cells| cells.spawned_now)?;
    signal(1)?;
    end_all(std::mem::take(&mut tickets))?;

    let mut graph = Graph::new("sleep", 0);
    graph.node("sleeper", ops.sleeps, [event.into(), 3.into()]);
    let mut taken = Vec::new();
    for (index, (tenant, producer)) in producers.iter_mut().enumerate() {
        if index < plan.tenants() as usize {
            taken.push(session.add_graph(*tenant, &graph)?);
        }
        for _ in 0..INSTANCES_PER_PRODUCER {
            tickets.push(producer.submit(taken[*tenant as usize].launch(&[])?)?);
        }
    }
    wait_until(session, u64::from(plan.producers * INSTANCES_PER_PRODUCER), graphs_now)?;
    signal(1)?;
    end_all(tickets)?;
    taken.iter().try_for_each(|graph| session.remove_graph(graph, PATIENCE))?;
    Ok(())
}

/// Waits until a figure of the snapshot has a value.
fn wait_until(session: &Session, wanted: u64, figure: impl Fn(&CellSnapshot) -> u64) -> Result<(), CliError> {
    let since = Instant::now();
    loop {
        let cells = session.snapshot()?.cells;
        match cells {
            Some(cells) if figure(&cells) == wanted => return Ok(()),
            Some(cells) if since.elapsed() > PATIENCE => {
                let what = format!("only {} of {wanted} could be taken at the end\n{cells}", figure(&cells));
                return Err(CliError::Wrong(what));
            }
            _ => std::thread::yield_now(),
        }
    }
}

/// Waits for tasks whose result must be 1.
fn end_all(tickets: Vec<Ticket>) -> Result<(), CliError> {
    for mut ticket in tickets {
        match ticket.wait(PATIENCE)? {
            1 => {}
            found => {
                return Err(CliError::Wrong(format!(
                    "a task that waited for an event returned {found}, not 1"
                )));
            }
        }
    }
    Ok(())
}
