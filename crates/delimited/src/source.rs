//! The bytes of a file, plain or compressed, that can be read twice even if they come from a pipe.
//!
//! Types are inferred in one pass and rows are inserted in another. A regular file is read again
//! from its start. A pipe can be read once, so its first pass keeps the bytes: 64 MiB in memory,
//! and the rest in a temporary file that has no name, so that nothing is left over however the
//! process ends. Bytes are kept as they arrive, that is, compressed if they are.
//!
//! Compression is detected by the first bytes, not by the name of the file: gzip and Zstandard are
//! read, also several members or frames in one file. Truncated or damaged input is an error, never
//! an early end.

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a pipe that are kept in memory.
const MEMORY_BYTES_MAX: usize = 64 << 20;
/// Bytes at the start that identify the compression.
const MAGIC_BYTES: usize = 4;

/// How often a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// Nothing of a pipe is kept.
    One,
    /// The first pass over a pipe keeps all of it.
    Two,
}

/// A file, or standard input.
pub(crate) struct Source {
    decoder: Decoder,
    file_bytes: u64,
}

impl Source {
    /// Opens a file; `-` is standard input.
    pub(crate) fn open(path: &Path, passes: Passes) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::new(RawInput::stream(Box::new(io::stdin()), passes), 0);
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if metadata.is_file() {
            return Self::new(RawInput::File { file, bytes: 0 }, metadata.len());
        }
        Self::new(RawInput::stream(Box::new(file), passes), 0)
    }

    /// Reads a stream, once.
    pub(crate) fn of_stream(stream: Box<dyn Read>) -> io::Result<Self> {
        Self::new(RawInput::stream(stream, Passes::One), 0)
    }

    fn new(mut raw: RawInput, file_bytes: u64) -> io::Result<Self> {
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        raw.by_ref()
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut magic)?;
        raw.rewind()?;
        if let RawInput::Stream(stream) = &mut raw {
            stream.keeps = stream.passes == Passes::Two;
        }
        let compression = Compression::of(&magic);
        Ok(Self {
            decoder: Decoder::new(compression, Raw::new(raw)),
            file_bytes,
        })
    }

    /// Goes back to the start, for the second pass.
    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        let nothing = RawInput::stream(Box::new(io::empty()), Passes::One);
        let nothing = Decoder::Plain(Raw::new(nothing));
        let (compression, mut raw) = std::mem::replace(&mut self.decoder, nothing).into_raw();
        raw.input.rewind()?;
        self.decoder = Decoder::new(compression, raw);
        Ok(())
    }

    /// Bytes of the file, compressed if it is; 0 if unknown.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Bytes of the file that have been read in this pass.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.decoder {
            Decoder::Plain(raw) => raw.input.position(),
            Decoder::Gzip(gzip) => gzip.get_ref().input.position(),
            Decoder::Zstandard(frames) => frames.raw.get_ref().input.position(),
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (name, count, raw) = match &mut self.decoder {
            Decoder::Plain(raw) => return raw.input.read(buffer),
            Decoder::Gzip(gzip) => ("gzip", gzip.read(buffer), gzip.get_mut()),
            Decoder::Zstandard(frames) => {
                let count = frames.read(buffer);
                ("Zstandard", count, frames.raw.get_mut())
            }
        };
        count.map_err(|error| match raw.failure.take() {
            Some(cause) => cause,
            None => io::Error::new(
                error.kind(),
                format!("it is compressed with {name} and damaged or cut off: {error}"),
            ),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstandard,
}

impl Compression {
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1F, 0x8B, ..] => Self::Gzip,
            // A frame, or one to be skipped before it.
            [0x28, 0xB5, 0x2F, 0xFD] | [0x50..=0x5F, 0x2A, 0x4D, 0x18] => Self::Zstandard,
            _ => Self::None,
        }
    }
}

enum Decoder {
    Plain(Raw),
    Gzip(Box<MultiGzDecoder<Raw>>),
    Zstandard(Box<Frames>),
}

impl Decoder {
    fn new(compression: Compression, raw: Raw) -> Self {
        match compression {
            Compression::None => Self::Plain(raw),
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(raw))),
            Compression::Zstandard => Self::Zstandard(Box::new(Frames {
                raw: BufReader::new(raw),
                decoder: FrameDecoder::new(),
                in_frame: false,
            })),
        }
    }

    fn into_raw(self) -> (Compression, Raw) {
        match self {
            Self::Plain(raw) => (Compression::None, raw),
            Self::Gzip(gzip) => (Compression::Gzip, gzip.into_inner()),
            Self::Zstandard(frames) => (Compression::Zstandard, frames.raw.into_inner()),
        }
    }
}

/// The frames of a Zstandard file, one after the other.
struct Frames {
    raw: BufReader<Raw>,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl Frames {
    /// Reads the header of the next frame; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.raw.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.raw) {
                Ok(()) => {
                    self.in_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = (&mut self.raw).take(length.into());
                    let skipped_bytes = io::copy(&mut { skipped }, &mut io::sink())?;
                    if skipped_bytes < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    fn end(&mut self) -> io::Result<()> {
        self.in_frame = false;
        match self.decoder.get_checksum_from_data() {
            Some(stated) if self.decoder.get_calculated_checksum() != Some(stated) => {
                Err(io::Error::other("the checksum does not match"))
            }
            _ => Ok(()),
        }
    }
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_frame && !self.begin()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder
                    .decode_blocks(&mut self.raw, strategy)
                    .map_err(io::Error::other)?;
            }
            match self.decoder.read(buffer)? {
                0 if !buffer.is_empty() => self.end()?,
                count => return Ok(count),
            }
        }
    }
}

/// Bytes as they lie in the file or come through the pipe, under a decoder.
struct Raw {
    input: RawInput,
    /// Why they could not be read: a decoder may say so in words of its own.
    failure: Option<io::Error>,
}

impl Raw {
    fn new(input: RawInput) -> Self {
        Self {
            input,
            failure: None,
        }
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer).map_err(|error| {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.failure = Some(error);
            copy
        })
    }
}

enum RawInput {
    File { file: File, bytes: u64 },
    Stream(Stream),
}

impl RawInput {
    fn stream(input: Box<dyn Read>, passes: Passes) -> Self {
        Self::Stream(Stream {
            input,
            passes,
            kept: Kept::new(MEMORY_BYTES_MAX),
            // The magic bytes are read in any case.
            keeps: true,
            bytes: 0,
        })
    }

    /// Goes back to the start; a stream must have kept the bytes read of it.
    fn rewind(&mut self) -> io::Result<()> {
        match self {
            Self::File { file, bytes } => {
                *bytes = 0;
                file.rewind()
            }
            Self::Stream(stream) => {
                stream.bytes = 0;
                Ok(())
            }
        }
    }

    /// Bytes read in this pass.
    fn position(&self) -> u64 {
        match self {
            Self::File { bytes, .. } => *bytes,
            Self::Stream(stream) => stream.bytes,
        }
    }
}

impl Read for RawInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File { file, bytes } => {
                let count = file.read(buffer)?;
                *bytes += count as u64;
                Ok(count)
            }
            Self::Stream(stream) => stream.read(buffer),
        }
    }
}

/// A pipe, with the bytes read of it.
struct Stream {
    input: Box<dyn Read>,
    passes: Passes,
    kept: Kept,
    /// Whether bytes that come are kept.
    keeps: bool,
    /// Bytes read in this pass.
    bytes: u64,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = if self.bytes < self.kept.bytes() {
            self.kept.read_at(self.bytes, buffer)?
        } else {
            let count = self.input.read(buffer)?;
            if self.keeps {
                self.kept.append(&buffer[..count])?;
            }
            count
        };
        self.bytes += count as u64;
        Ok(count)
    }
}

/// Bytes for a second pass: the first ones in memory, the rest in a file without a name.
struct Kept {
    memory: Vec<u8>,
    memory_bytes_max: usize,
    file: Option<File>,
    file_bytes: u64,
}

impl Kept {
    fn new(memory_bytes_max: usize) -> Self {
        Self {
            memory: Vec::new(),
            memory_bytes_max,
            file: None,
            file_bytes: 0,
        }
    }

    fn bytes(&self) -> u64 {
        self.memory.len() as u64 + self.file_bytes
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.memory_bytes_max - self.memory.len();
        let (in_memory, in_file) = bytes.split_at(bytes.len().min(room));
        self.memory.extend_from_slice(in_memory);
        if in_file.is_empty() {
            return Ok(());
        }
        let directory = std::env::temp_dir();
        self.append_to_file(&directory, in_file).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!(
                    "types are inferred before rows are inserted, and what does not fit into memory meanwhile \
                     cannot be kept in {}: {error}; make room there, name a directory with more room in the \
                     variable TMPDIR, or create the table first, so that one pass is enough",
                    directory.display()
                ),
            )
        })
    }

    fn append_to_file(&mut self, directory: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => nameless(directory)?,
        };
        file.write_all(bytes)?;
        self.file_bytes += bytes.len() as u64;
        self.file = Some(file);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let memory_bytes = self.memory.len() as u64;
        match &self.file {
            _ if offset < memory_bytes => (&self.memory[offset as usize..]).read(buffer),
            Some(file) => file.read_at(buffer, offset - memory_bytes),
            None => Ok(0),
        }
    }
}

/// A new file that is removed from its directory at once and lives as long as its handle.
fn nameless(directory: &Path) -> io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("indelible-import-{}-{number}", std::process::id());
        let path: PathBuf = directory.join(name);
        let made = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                let file = made?;
                fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression as Level;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn piped(bytes: Vec<u8>, memory_bytes_max: usize) -> io::Result<Source> {
        let mut raw = RawInput::stream(Box::new(io::Cursor::new(bytes)), Passes::Two);
        if let RawInput::Stream(stream) = &mut raw {
            stream.kept = Kept::new(memory_bytes_max);
        }
        Source::new(raw, 0)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Level::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read_twice(source: &mut Source) -> [Vec<u8>; 2] {
        let mut passes = [Vec::new(), Vec::new()];
        for pass in &mut passes {
            source.read_to_end(pass).unwrap();
            source.rewind().unwrap();
        }
        passes
    }

    #[test]
    fn a_pipe_is_read_twice_from_memory_and_from_a_file() {
        let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        for memory_bytes_max in [MAGIC_BYTES, 1000, content.len(), MEMORY_BYTES_MAX] {
            let mut source = piped(content.clone(), memory_bytes_max).unwrap();
            let passes = read_twice(&mut source);
            assert!(passes.iter().all(|pass| pass == &content));
        }
        for short in ["", "a", "abc", "abcd"] {
            let mut source = piped(short.into(), 2).unwrap();
            let passes = read_twice(&mut source);
            assert!(passes.iter().all(|pass| pass == short.as_bytes()));
        }
    }

    #[test]
    fn compressed_bytes_are_read_through_all_their_parts() {
        let (one, two) = (b"id,name\n1,x\n".repeat(9000), b"2,y\n".repeat(5));
        let whole = [one.as_slice(), &two].concat();
        let level = CompressionLevel::Fastest;
        let frame = |bytes: &[u8]| compress_to_vec(bytes, level);
        let skipped = vec![0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 7, 7, 7];
        let compressed = [
            [gzip(&one), gzip(&two)].concat(),
            [frame(&one), skipped.clone(), frame(&two)].concat(),
            [skipped, frame(&whole)].concat(),
        ];
        for bytes in compressed {
            let mut source = piped(bytes.clone(), 100).unwrap();
            assert_eq!(read_twice(&mut source), [whole.clone(), whole.clone()]);
            // Cut off anywhere, even between checksum and end, it is an error.
            for cut in [1, 5, bytes.len() / 2] {
                let mut source = piped(bytes[..bytes.len() - cut].to_vec(), 100).unwrap();
                let error = source.read_to_end(&mut Vec::new()).unwrap_err();
                assert!(error.to_string().contains("cut off"), "{error}");
            }
        }
    }

    #[test]
    fn a_pipe_that_breaks_is_not_taken_for_damage() {
        struct Broken(io::Cursor<Vec<u8>>);
        impl Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                match self.0.read(buffer)? {
                    0 => Err(io::Error::other("the line is dead")),
                    count => Ok(count),
                }
            }
        }
        let content = b"id,name\n1,x\n".repeat(9000);
        let level = CompressionLevel::Fastest;
        for mut bytes in [gzip(&content), compress_to_vec(&content[..], level)] {
            bytes.truncate(bytes.len() - 20);
            let broken = Broken(io::Cursor::new(bytes));
            let raw = RawInput::stream(Box::new(broken), Passes::One);
            let mut source = Source::new(raw, 0).unwrap();
            let error = source.read_to_end(&mut Vec::new()).unwrap_err();
            assert_eq!(error.to_string(), "the line is dead");
        }
    }

    #[test]
    fn a_directory_without_room_is_one_clear_error() {
        let mut kept = Kept::new(4);
        let none = Path::new("/no/such/directory");
        assert!(kept.append_to_file(none, b"abc").is_err());
        kept.append(b"abc").unwrap();
        assert_eq!(kept.bytes(), 3);
    }
}
