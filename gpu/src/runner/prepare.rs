//! Pipelines that are compiled after a load: those of a width or of a way to choose tokens, when they are
//! first wanted.

use fanlight_messages::device::{Preparation, Quarantined};
use fanlight_messages::draft::{WIDTHS, Width};
use fanlight_messages::sampling::Sampling;

use super::encode::{self, Batch, Rows};
use super::lower::Product;
use super::step::{self, StepKernels};
use super::{GpuError, Runner};
use crate::kernels::Kernel;

impl Runner {
    /// Compiles what steps of a width need, where that is new, and compares it with plain decoding: what is
    /// returned must not be used.
    ///
    /// # Errors
    /// [`GpuError::BatchTooLarge`] for a width that is no bucket or has more rows than logits are kept.
    pub(super) async fn compile_width(&mut self, width: Width) -> Result<Option<Quarantined>, GpuError> {
        loop {
            match self.compile_next(width).await? {
                Preparation::Going => {}
                Preparation::Done => return Ok(None),
                Preparation::Refused(quarantined) => return Ok(Some(quarantined)),
            }
        }
    }

    /// Compiles one pipeline that steps of a width need, or compares them when all exist, where that is new.
    ///
    /// # Errors
    /// As [`compile_width`](Self::compile_width).
    pub(super) async fn compile_next(&mut self, width: Width) -> Result<Preparation, GpuError> {
        let kernels = self.width_kernels(width)?;
        if let Some(kernel) = kernels.into_iter().find(|kernel| !self.resolved.contains_key(kernel)) {
            self.resolve(vec![kernel], &mut |_, _| ()).await?;
            return Ok(Preparation::Going);
        }
        let Width::Nodes(nodes) = width else { return Ok(Preparation::Done) };
        match self.checks.of_tree(nodes) {
            Some(None) => Ok(Preparation::Done),
            Some(Some(found)) => Ok(Preparation::Refused(found.clone())),
            None => {
                self.check_tree(nodes).await?;
                Ok(Preparation::Going)
            }
        }
    }

    /// What steps of a width need beyond what a load compiles.
    fn width_kernels(&self, width: Width) -> Result<Vec<Kernel>, GpuError> {
        let Width::Nodes(nodes) = width else { return Ok(Vec::new()) };
        if !WIDTHS.contains(&nodes) || nodes > self.plan.request.logits_rows {
            return Err(step::wrong_width(nodes));
        }
        let mut kernels = self.step_kernels(self.batch(nodes, Product::Lane(nodes), Rows::Tree, 1));
        kernels.extend(StepKernels::DRAFTING);
        Ok(kernels)
    }

    /// Compiles what a request's sampling needs, where that is new.
    pub(super) async fn compile_sampling(&mut self, sampling: &Sampling) -> Result<(), GpuError> {
        self.resolve(StepKernels::sampling_kernels(sampling), &mut |_, _| ()).await
    }

    /// Compiles everything that a step of this batch needs, where it is new.
    pub(super) async fn compile_step(&mut self, batch: Batch) -> Result<(), GpuError> {
        self.resolve(self.step_kernels(batch), &mut |_, _| ()).await
    }

    fn step_kernels(&self, batch: Batch) -> Vec<Kernel> {
        let mut kernels = StepKernels::ALWAYS.to_vec();
        kernels.extend(self.step.finishing());
        for op in &self.body {
            encode::visit(op, batch, &mut |kernel, _, _| kernels.push(kernel));
        }
        let head = |page| batch.product.kernel(page, batch.tokens, batch.packed_dot).0;
        kernels.extend(self.head_all.iter().map(head));
        kernels
    }

    pub(super) async fn resolve(
        &mut self,
        kernels: Vec<Kernel>,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<(), GpuError> {
        let mut wanted: Vec<Kernel> = Vec::new();
        for kernel in kernels {
            if !self.resolved.contains_key(&kernel) && !wanted.contains(&kernel) {
                wanted.push(kernel);
            }
        }
        let total = wanted.len() as u64;
        for (done, kernel) in (0..).zip(wanted) {
            progress(done, total);
            let pipeline = self.pipelines.get(kernel).await?;
            self.resolved.insert(kernel, pipeline);
        }
        progress(total, total);
        Ok(())
    }
}
