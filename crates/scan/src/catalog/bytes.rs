//! Numbers and lists as bytes: what the stored form of a catalog is made of.
//!
//! All numbers are little-endian. A list is preceded by its length as 64 bits.

/// Collects bytes.
#[derive(Default)]
pub(super) struct ByteWriter {
    bytes: Vec<u8>,
}

impl ByteWriter {
    /// Returns what was written.
    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// Writes a number that may be absent.
    pub(super) fn optional_u32(&mut self, value: Option<u32>) {
        self.u32(u32::from(value.is_some()));
        self.u32(value.unwrap_or(0));
    }

    /// Writes bytes without their length.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    pub(super) fn u8_list(&mut self, list: &[u8]) {
        self.u64(list.len() as u64);
        self.raw(list);
    }

    pub(super) fn u16_list(&mut self, list: &[u16]) {
        self.u64(list.len() as u64);
        self.bytes.reserve(2 * list.len());
        self.bytes.extend(list.iter().flat_map(|value| value.to_le_bytes()));
    }

    pub(super) fn u32_list(&mut self, list: &[u32]) {
        self.u64(list.len() as u64);
        self.bytes.extend(list.iter().flat_map(|value| value.to_le_bytes()));
    }
}

/// Takes bytes apart. Every method returns `None` if too few bytes are left or they mean nothing.
pub(super) struct ByteReader<'b> {
    bytes: &'b [u8],
}

impl<'b> ByteReader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> ByteReader<'b> {
        ByteReader { bytes }
    }

    /// Returns `Some` if all bytes were read.
    pub(super) fn end(&self) -> Option<()> {
        self.bytes.is_empty().then_some(())
    }

    /// Reads bytes whose number is known.
    pub(super) fn raw(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Reads an array of bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn boolean(&mut self) -> Option<bool> {
        match self.u32()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn optional_u32(&mut self) -> Option<Option<u32>> {
        let present = self.boolean()?;
        let value = self.u32()?;
        Some(present.then_some(value))
    }

    /// Reads the length of a list whose elements take `size` bytes each, and checks that they are there, so that no
    /// memory is reserved for a length that is wrong.
    pub(super) fn length(&mut self, size: usize) -> Option<usize> {
        let length = usize::try_from(self.u64()?).ok()?;
        (length.checked_mul(size)? <= self.bytes.len()).then_some(length)
    }

    pub(super) fn u8_list(&mut self) -> Option<Vec<u8>> {
        let length = self.length(1)?;
        self.raw(length).map(Vec::from)
    }

    pub(super) fn u16_list(&mut self) -> Option<Vec<u16>> {
        let length = self.length(2)?;
        let (pairs, _) = self.raw(2 * length)?.as_chunks();
        Some(pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect())
    }

    pub(super) fn u32_list(&mut self) -> Option<Vec<u32>> {
        let length = self.length(4)?;
        let (words, _) = self.raw(4 * length)?.as_chunks();
        Some(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }
}

/// A checksum that detects any change of a single byte, and almost certainly all other changes.
///
/// Four sums run side by side, so that it takes much less time than reading a file. Each step can be undone, so two
/// texts that differ in one place have different sums.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    const PRIMES: [u64; 4] =
        [0x9e37_79b1_85eb_ca87, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0x85eb_ca77_c2b2_ae63];
    let step = |sum: u64, word: [u8; 8], prime: u64| {
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(prime).rotate_left(29)
    };
    let mut sums = PRIMES;
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in words.iter().enumerate() {
            sums[lane] = step(sums[lane], *word, PRIMES[lane]);
        }
    }
    let mut last = [0; 32];
    last[..rest.len()].copy_from_slice(rest);
    let (words, _) = last.as_chunks::<8>();
    let total = sums.into_iter().zip(words).fold(bytes.len() as u64, |total, (sum, word)| {
        let sum = step(sum, *word, PRIMES[3]);
        step(total, (sum ^ sum >> 32).to_le_bytes(), PRIMES[0])
    });
    (total ^ total >> 31).wrapping_mul(PRIMES[1])
}
