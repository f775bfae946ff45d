//! A table's file, written batch by batch.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use trace_format::Commit;

use crate::row::{Row, schema};
use crate::{Result, TableError};

/// Rows that are held until they are written together.
const BATCH_ROWS: usize = 1 << 13;
/// Rows of a group of Parquet, whose encoded columns are held until it is whole.
const GROUP_ROWS: usize = 1 << 18;
/// Bytes on their way to the file.
const BUFFER_BYTES: usize = 1 << 18;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet, columns compressed with zstd.
    Parquet,
    /// Apache Arrow's file format (Feather), buffers compressed with zstd.
    Arrow,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Parquet, Self::Arrow];

    /// The suffix of its files' names.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// The format that a file's name selects, if any.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        Self::ALL.into_iter().find(|format| format.extension() == extension)
    }
}

/// A table that is written, under a temporary name. Dropped, it goes.
pub struct Written {
    /// How many rows it has.
    pub rows: u64,
    path: PathBuf,
    commit: Commit,
}

impl Written {
    /// Waits until it is on its disk, and gives it its name.
    ///
    /// # Errors
    /// When the system refuses either.
    pub fn finish(self) -> Result<()> {
        let Self { path, commit, .. } = self;
        commit.finish().map_err(|error| TableError::Io { path, error })
    }
}

/// A table in the making.
pub(crate) struct Sink<R> {
    rows: Vec<R>,
    count: u64,
    path: PathBuf,
    file: Encoder,
    commit: Commit,
}

enum Encoder {
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
    Arrow(Box<FileWriter<BufWriter<File>>>),
}

impl<R: Row> Sink<R> {
    pub(crate) fn create(path: &Path, format: Format) -> Result<Self> {
        let failed = |error| TableError::Io { path: path.to_owned(), error };
        let (file, commit) = Commit::begin(path).map_err(failed)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let encoder = Encoder::begin::<R>(out, format).map_err(|fault| fault.of(path))?;
        let rows = Vec::with_capacity(BATCH_ROWS);
        Ok(Self { rows, count: 0, path: path.to_owned(), file: encoder, commit })
    }

    pub(crate) fn push(&mut self, row: R) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() == BATCH_ROWS { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let columns = R::columns().into_iter().map(|(_, of)| of(&self.rows)).collect();
        let batch = RecordBatch::try_new(schema::<R>(), columns).map_err(Fault::from);
        let written = batch.and_then(|batch| self.file.write(&batch));
        written.map_err(|fault| fault.of(&self.path))?;
        self.count += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }

    pub(crate) fn end(mut self) -> Result<Written> {
        self.write_batch()?;
        let Self { count, path, file, commit, .. } = self;
        file.end().map_err(|fault| fault.of(&path))?;
        Ok(Written { rows: count, path, commit })
    }
}

impl Encoder {
    fn begin<R: Row>(out: BufWriter<File>, format: Format) -> Result<Self, Fault> {
        let schema = schema::<R>();
        Ok(match format {
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .set_max_row_group_row_count(Some(GROUP_ROWS))
                    .set_created_by(concat!("vramtape ", env!("CARGO_PKG_VERSION")).to_owned())
                    .build();
                Self::Parquet(Box::new(ArrowWriter::try_new(out, schema, Some(properties))?))
            }
            Format::Arrow => {
                let zstd = Some(CompressionType::ZSTD);
                let options = IpcWriteOptions::default().try_with_compression(zstd)?;
                Self::Arrow(Box::new(FileWriter::try_new_with_options(out, &schema, options)?))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Fault> {
        match self {
            Self::Parquet(writer) => writer.write(batch)?,
            Self::Arrow(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    fn end(self) -> Result<(), Fault> {
        let out = match self {
            Self::Parquet(writer) => writer.into_inner()?,
            Self::Arrow(mut writer) => {
                writer.finish()?;
                writer.into_inner()?
            }
        };
        out.into_inner().map_err(|error| Fault::Io(error.into_error()))?;
        Ok(())
    }
}

/// An encoder's error; the system's own where there is one.
enum Fault {
    Io(io::Error),
    Other(String),
}

impl Fault {
    fn of(self, path: &Path) -> TableError {
        let path = path.to_owned();
        match self {
            Self::Io(error) => TableError::Io { path, error },
            Self::Other(reason) => TableError::Format { path, reason },
        }
    }
}

impl From<ArrowError> for Fault {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => Self::Io(error),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(error) => Self::Io(*error),
                Err(other) => Self::Other(other.to_string()),
            },
            other => Self::Other(other.to_string()),
        }
    }
}
