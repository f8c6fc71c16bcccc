//! Where the producers of the load `stress` have their rows and blocks, and which tenants they belong to.

use pelton::TenantId;

use super::handlers::row_word;
use crate::bench::soak::random_graph::BLOCK_WORDS;

/// The number of tenants, if there are as many producers.
const TENANTS: u32 = 2;
/// The element at which the rows begin, after the totals.
const FIRST_ROW: u32 = 16;
/// The number of rows of a producer.
pub(super) const ROWS: u32 = 256;
/// The number of blocks for graphs of a producer.
pub(super) const BLOCKS: u32 = 24;

/// The places of all producers. Every tenant has the same ones, and uses those of its own producers.
#[derive(Clone, Copy, Debug)]
pub(super) struct StressPlan {
    pub producers: u32,
}

impl StressPlan {
    /// The number of tenants.
    pub(super) fn tenants(self) -> u32 {
        self.producers.min(TENANTS)
    }

    /// The tenant of a producer. Producers are given to the tenants in turn.
    pub(super) fn tenant(self, producer: u32) -> TenantId {
        producer % self.tenants()
    }

    /// The number of producers of a tenant.
    pub(super) fn producers_of(self, tenant: TenantId) -> u32 {
        (0..self.producers).filter(|producer| self.tenant(*producer) == tenant).count() as u32
    }

    /// The event that all producers of a tenant share. The events before it belong to one producer each.
    pub(super) fn shared_event(self) -> u32 {
        self.producers
    }

    /// The event that is used after all producers have ended.
    pub(super) fn last_event(self) -> u32 {
        self.producers + 1
    }

    /// The most nodes of a graph. A session has room for the graphs of all producers if they are no larger.
    pub(super) fn graph_nodes(self) -> usize {
        (640 / self.producers as usize).min(40)
    }

    /// The element at which a row of a producer begins.
    pub(super) fn row_at(self, producer: u32, row: u32) -> u32 {
        FIRST_ROW + (producer * ROWS + row) * row_word::WORDS
    }

    /// The element at which a block of a producer begins.
    pub(super) fn block_at(self, producer: u32, block: u32) -> u32 {
        self.row_at(self.producers, 0) + (producer * BLOCKS + block) * BLOCK_WORDS
    }

    /// The number of elements that a tenant has.
    pub(super) fn element_count(self) -> u32 {
        self.block_at(self.producers, 0)
    }
}
