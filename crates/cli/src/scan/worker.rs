//! A thread of a scan: takes jobs, reads their inputs, and delivers what is found in them.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::sync::PoisonError;

use pelton_scan::ScanError;
use pelton_scan::scanner::{FindingSink, InputBatch, StreamOptions, StreamReport};

use crate::scan::blobs::BlobStore;
use crate::scan::escape::{shown_path, shown_text};
use crate::scan::format::OutputFormat;
use crate::scan::inputs::{InputSource, ScanInput};
use crate::scan::order::OutputPiece;
use crate::scan::pipe_reader::PipeReader;
use crate::scan::report::{ScanCounters, Scanned};
use crate::scan::sorter::{FindingOrder, FindingSorter};
use crate::scan::staged::StagedBlob;
use crate::scan::text_reader::{FileKind, HEAD_LENGTH, TextReader};
use crate::scan::work::{FileReading, ScanWork};

/// The number of bytes of small files that are scanned together.
const BATCH_BYTES: usize = 4 << 20;

/// Output is delivered when it is larger than this.
const PIECE_BYTES: usize = 1 << 20;

/// Files from this size on are scanned by all threads together.
const SHARED_FILE_BYTES: u64 = 64 << 20;

/// A thread of a scan.
pub(super) struct ScanWorker<'w> {
    work: &'w ScanWork,
    /// The job that is being done.
    job: usize,
    batch: InputBatch,
    /// The inputs of the batch.
    batched: Vec<(usize, Scanned)>,
    /// What was found and not delivered yet.
    piece: OutputPiece,
    blobs: Option<BlobStore>,
}

/// How much of an input fits into a batch.
enum BatchFill {
    /// All of it, this number of bytes.
    Whole(usize),
    /// Only a part.
    Part,
}

impl<'w> ScanWorker<'w> {
    /// Makes the memory that a thread reads small files into.
    pub(super) fn make_batch(work: &ScanWork) -> Result<InputBatch, ScanError> {
        work.scanner.batch(BATCH_BYTES)
    }

    /// Prepares a thread.
    pub(super) fn new(work: &'w ScanWork, batch: InputBatch) -> ScanWorker<'w> {
        let piece = OutputPiece::default();
        ScanWorker { work, job: 0, batch, batched: Vec::new(), piece, blobs: None }
    }

    /// Does jobs until there is none left, or the scan ends early.
    pub(super) fn run(mut self) {
        let work = self.work;
        while let Some(job) = work.take_job() {
            self.job = job;
            for index in work.job_inputs(job) {
                if work.is_over() {
                    break;
                }
                if let Err(error) = self.scan_input(index) {
                    self.fail(index, &error);
                }
            }
            self.scan_batch();
            self.deliver();
            work.output.end(job);
        }
    }

    /// Notes that an input cannot be scanned. What was found before comes before.
    fn fail(&mut self, index: usize, error: &ScanError) {
        self.scan_batch();
        let (path, why) = (shown_path(self.work.path(index)), shown_text(&error.to_string()));
        let what = if matches!(error, ScanError::Io(_)) { "read" } else { "scan" };
        self.piece.problems.push(format!("cannot {what} {path}: {why}"));
    }

    /// Delivers what was found so far.
    fn deliver(&mut self) {
        self.work.output.deliver(self.job, std::mem::take(&mut self.piece));
    }

    /// Puts an input into the batch, or scans it if it is too large for that.
    fn scan_input(&mut self, index: usize) -> Result<(), ScanError> {
        let work = self.work;
        let input = &work.inputs[index];
        match &input.source {
            InputSource::Found | InputSource::Named => {
                let file = File::open(&input.path)?;
                let meta = file.metadata()?;
                self.scan_opened(index, file, &meta)
            }
            InputSource::Pipe => {
                let path = input.path.clone();
                self.scan_pipe(index, PipeReader::start(move || File::open(path))?)
            }
            InputSource::Stdin => self.scan_pipe(index, PipeReader::start(|| Ok(io::stdin()))?),
            InputSource::Staged(blob) => {
                let mut blobs = match self.blobs.take() {
                    Some(blobs) => blobs,
                    None => BlobStore::start()?,
                };
                self.scan_blob(index, blob, &mut blobs)?;
                // After an error the state of the process is unknown, so another one is started.
                self.blobs = Some(blobs);
                Ok(())
            }
        }
    }

    /// Scans a file of any size.
    fn scan_opened(&mut self, index: usize, mut file: File, meta: &Metadata) -> Result<(), ScanError> {
        let work = self.work;
        if !work.scanner.applies_to(work.path(index)) {
            self.push(index, Scanned::PathOnly, 0);
            return Ok(());
        }
        let found = matches!(work.inputs[index].source, InputSource::Found);
        if found && meta.len() > work.options.max_filesize {
            ScanCounters::add(&work.reporter.counters.too_large, 1);
            self.push(index, Scanned::PathOnly, 0);
            return Ok(());
        }
        if meta.len() <= BATCH_BYTES as u64 {
            self.make_room(meta.len() as usize);
            if let BatchFill::Whole(len) = fill(self.batch.room(), &mut file)? {
                return self.push_bytes(index, len);
            }
            // The file is longer than it said, as files of the kernel are and files that grow. It is read as it comes.
            file.seek(SeekFrom::Start(0))?;
            return self.scan_stream(index, Scanned::Whole, &mut TextReader::new(file));
        }
        let mut head = [0; HEAD_LENGTH];
        let BatchFill::Whole(known) = fill(&mut head, &mut Read::by_ref(&mut file).take(HEAD_LENGTH as u64))?
        else {
            unreachable!("no more than the head is read");
        };
        file.seek(SeekFrom::Start(0))?;
        match FileKind::of(&head[..known]) {
            FileKind::Binary if found && work.options.reading == FileReading::Text => {
                self.skip_binary(index);
                Ok(())
            }
            FileKind::Utf16(_) if work.options.reading == FileReading::Text => {
                self.scan_stream(index, Scanned::Decoded, &mut TextReader::new(file))
            }
            _ => self.scan_large(index, &file, meta.len()),
        }
    }

    /// Scans a large file where it is.
    fn scan_large(&mut self, index: usize, file: &File, len: u64) -> Result<(), ScanError> {
        self.scan_batch();
        let work = self.work;
        let all = len >= SHARED_FILE_BYTES || work.inputs.len() < work.options.threads;
        // Only one file at a time is scanned by all threads, so that there is no need for the memory of two.
        let turn = all.then(|| work.large_file.lock().unwrap_or_else(PoisonError::into_inner));
        let threads = if all { work.options.threads } else { 1 };
        self.stream_findings(index, Scanned::Whole, |work, input, sink| {
            let options = StreamOptions { threads, stop: Some(work.over()), ..work.stream_options() };
            work.scanner.scan_file(&input.path, file, options, sink)
        })?;
        drop(turn);
        Ok(())
    }

    /// Scans a pipe, which is text unless told otherwise. It ends when Ctrl-C is pressed, and then what has come until
    /// then is scanned.
    fn scan_pipe(&mut self, index: usize, mut pipe: PipeReader) -> Result<(), ScanError> {
        let cut_short = pipe.cut_short();
        let mut text;
        let reader: &mut (dyn Read + Send) = match self.work.options.reading {
            FileReading::Text => {
                text = TextReader::new(pipe);
                &mut text
            }
            FileReading::Bytes => &mut pipe,
        };
        self.scan_batch();
        self.stream_findings(index, Scanned::Whole, |work, input, sink| {
            let options = StreamOptions { cut_short: Some(&cut_short), ..work.stream_options() };
            work.scanner.scan_reader(&input.path, reader, options, sink)
        })
    }

    /// Scans a file of the index of git.
    fn scan_blob(&mut self, index: usize, blob: &StagedBlob, blobs: &mut BlobStore) -> Result<(), ScanError> {
        let mut bytes = blobs.open(&blob.object)?;
        if bytes.size > self.work.options.max_filesize {
            ScanCounters::add(&self.work.reporter.counters.too_large, 1);
            self.push(index, Scanned::PathOnly, 0);
        } else if bytes.size <= BATCH_BYTES as u64 {
            let size = bytes.size as usize;
            self.make_room(size);
            bytes.read_exact(&mut self.batch.room()[..size])?;
            self.push_bytes(index, size)?;
        } else {
            let mut head = vec![0; HEAD_LENGTH];
            bytes.read_exact(&mut head)?;
            let kind = FileKind::of(&head);
            let mut whole = head.chain(&mut bytes);
            match (kind, self.work.options.reading) {
                (FileKind::Binary, FileReading::Text) => self.skip_binary(index),
                (FileKind::Utf16(_), FileReading::Text) => {
                    self.scan_stream(index, Scanned::Decoded, &mut TextReader::new(whole))?;
                }
                _ => self.scan_stream(index, Scanned::Whole, &mut whole)?,
            }
        }
        Ok(bytes.finish()?)
    }

    /// Scans what a reader yields.
    fn scan_stream(
        &mut self,
        index: usize,
        scanned: Scanned,
        reader: &mut (dyn Read + Send),
    ) -> Result<(), ScanError> {
        self.scan_batch();
        self.stream_findings(index, scanned, |work, input, sink| {
            work.scanner.scan_reader(&input.path, reader, work.stream_options(), sink)
        })
    }

    /// Runs a scan that yields findings one by one, and delivers them on the way.
    fn stream_findings(
        &mut self,
        index: usize,
        scanned: Scanned,
        scan: impl FnOnce(&ScanWork, &ScanInput, &mut FindingSink<'_>) -> Result<StreamReport, ScanError>,
    ) -> Result<(), ScanError> {
        self.deliver();
        let (work, job) = (self.work, self.job);
        let input = &work.inputs[index];
        let live = matches!(input.source, InputSource::Pipe | InputSource::Stdin);
        let order = if live { FindingOrder::AsFound } else { FindingOrder::Sorted };
        let mut sorter = FindingSorter::new(order);
        let mut found = 0;
        let report = scan(work, input, &mut |finding| {
            let mut out = Vec::new();
            if work.reporter.report(&work.scanner, input, scanned, &finding, &mut out) {
                found += 1;
                let out = sorter.push(finding.found, out);
                work.output.deliver(job, OutputPiece { out, problems: Vec::new() });
            }
            let enough = found > 0 && work.reporter.formatter.format == OutputFormat::Paths;
            // A pipe ends by itself when Ctrl-C is pressed, and what has come of it until then is reported.
            let over = !live && work.is_over();
            if enough || over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.piece.out.append(&mut sorter.take());
        work.reporter.end_input(input, found, &mut self.piece.out);
        for (rule, reason) in report?.gave_up {
            let id = shown_text(&work.scanner.rules().rules[rule as usize].id);
            let path = shown_path(&input.path);
            let hint = if live { "; a larger --max-retain keeps more of a pipe" } else { "" };
            self.piece.problems.push(format!("{path}: rule {id} gave up: {reason}{hint}"));
        }
        Ok(())
    }

    /// Makes room in the batch.
    fn make_room(&mut self, len: usize) {
        if self.batch.room().len() < len {
            self.scan_batch();
        }
    }

    /// Takes the next bytes of the batch's room as an input, after a look at what they are.
    fn push_bytes(&mut self, index: usize, len: usize) -> Result<(), ScanError> {
        let work = self.work;
        let named = matches!(work.inputs[index].source, InputSource::Named);
        let bytes = &self.batch.room()[..len];
        match (FileKind::of(bytes), work.options.reading) {
            (FileKind::Binary, FileReading::Text) if !named => self.skip_binary(index),
            (FileKind::Utf16(_), FileReading::Text) => {
                let mut text = Vec::new();
                TextReader::new(bytes).read_to_end(&mut text)?;
                self.make_room(text.len());
                let room = self.batch.room();
                if text.len() > room.len() {
                    return self.scan_stream(index, Scanned::Decoded, &mut &text[..]);
                }
                room[..text.len()].copy_from_slice(&text);
                self.push(index, Scanned::Decoded, text.len());
            }
            _ => self.push(index, Scanned::Whole, len),
        }
        Ok(())
    }

    /// Skips a binary file.
    fn skip_binary(&mut self, index: usize) {
        ScanCounters::add(&self.work.reporter.counters.binary, 1);
        self.push(index, Scanned::PathOnly, 0);
    }

    /// Takes the next bytes of the batch's room as an input.
    fn push(&mut self, index: usize, scanned: Scanned, len: usize) {
        self.batch.push(index as u64, self.work.path(index), len);
        self.batched.push((index, scanned));
        ScanCounters::add(&self.work.reporter.counters.bytes, len as u64);
    }

    /// Scans the batch, and empties it.
    fn scan_batch(&mut self) {
        let Some((first, _)) = self.batched.first() else { return };
        let work = self.work;
        let (batched, piece, job) = (&self.batched, &mut self.piece, self.job);
        // The input whose findings are being reported, and how many it has so far.
        let (mut current, mut found) = (0, 0);
        let scanned = work.scanner.visit_batch(&self.batch, &mut |number, finding| {
            while current < number {
                work.reporter.end_input(&work.inputs[batched[current].0], found, &mut piece.out);
                (current, found) = (current + 1, 0);
            }
            let (index, scanned) = batched[number];
            let input = &work.inputs[index];
            found += u64::from(work.reporter.report(&work.scanner, input, scanned, &finding, &mut piece.out));
            if piece.out.len() > PIECE_BYTES {
                work.output.deliver(job, std::mem::take(piece));
            }
            if work.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match scanned {
            Ok(()) => {
                for (index, _) in &batched[current..] {
                    work.reporter.end_input(&work.inputs[*index], found, &mut piece.out);
                    found = 0;
                }
            }
            Err(error) => {
                let (first, count) = (shown_path(work.path(*first)), batched.len());
                piece.problems.push(format!("cannot scan {count} files, beginning with {first}: {error}"));
            }
        }
        self.batched.clear();
        self.batch.clear();
        self.deliver();
    }
}

/// Reads all of an input, if there is room for it.
fn fill(room: &mut [u8], input: &mut impl Read) -> io::Result<BatchFill> {
    let mut filled = 0;
    loop {
        // One more byte than the room holds tells whether the input has ended.
        let mut more = [0];
        let full = filled == room.len();
        let to = if full { &mut more[..] } else { &mut room[filled..] };
        match input.read(to) {
            Ok(0) => return Ok(BatchFill::Whole(filled)),
            Ok(_) if full => return Ok(BatchFill::Part),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
