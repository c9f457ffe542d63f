// SPDX-License-Identifier: Apache-2.0
// choices.cpp: the table. Fusions and passes are tried where the network has what they look for; what is spent between launches in the
// shortest steps; what ranks do with each other on two of them.
#include "choices.hpp"

namespace bench {
namespace {

const std::vector<std::string> halves{"amp=true", "amp_level=O2"};
const std::vector<std::string> scaled{"amp=true", "amp_level=O2", "amp_dtype=f16"};
// Updates start bucket by bucket.
const std::vector<std::string> early{"uneven_batches=false"};

Trials residual() {
  return {"resnet20",
          64,
          1,
          {{"enable_auto_fusion", "false"},
           {"fuse_elewise_add_act_ops", "false"},
           {"fuse_bn_act_ops", "false"},
           {"fuse_bn_add_act_ops", "false"},
           {"fuse_relu_depthwise_conv", "false"},
           {"fuse_all_optimizer_ops", "false"},
           {"fuse_patterns", "false"},
           {"fusion_max_nodes", "2"},
           {"fusion_min_gain_us", "20"},
           {"enable_prune", "false"},
           {"enable_pad", "false"},
           {"layout", "nchw"},
           {"enable_addto", "false"},
           {"max_inplace_grad_add", "0"},
           {"enable_inplace", "false"},
           {"amp", "true"},
           {"amp_level", "O2", {"amp=true"}},
           {"amp_dtype", "f16", halves},
           {"use_dynamic_loss_scaling", "false", scaled},
           {"clip_global_norm", "true"},
           {"auto", "true"},
           {"device_threads", "1"},
           {"cudnn_exhaustive_search", "true"},
           {"conv_workspace_size_limit", "1"}}};
}

Trials decoder() {
  return {"transformer",
          2,
          1,
          {{"enable_auto_fusion", "false"},
           {"fuse_gemm_epilogue", "false"},
           {"fuse_all_optimizer_ops", "false"},
           {"fuse_patterns", "false"},
           {"enable_addto", "false"},
           {"enable_inplace", "false"},
           {"amp", "true"},
           {"amp_level", "O2", {"amp=true"}},
           {"cudnn_exhaustive_search", "true"}}};
}

Trials shortest() {
  return {"digits",
          32,
          1,
          {{"capture", "true"},
           {"capture", "false"},
           {"fetch_every", "16"},
           {"num_iteration_per_run", "8"},
           {"num_iteration_per_drop_scope", "1"}}};
}

Trials ranks() {
  return {"transformer",
          2,
          2,
          {{"bucket_mode", "documents"},
           {"fuse_all_reduce_ops", "false"},
           {"fuse_grad_size_in_MB", "1"},
           {"fuse_grad_max_layers", "4"},
           {"nccl_comm_num", "2"},
           {"sync_nccl_allreduce", "true"},
           {"use_hierarchical_allreduce", "true"},
           {"hierarchical_allreduce_inter_nranks", "2"},
           {"sharded", "true"},
           {"partition_MB", "1"},
           {"warm_up_steps", "0"},
           {"measure_every", "1"},
           {"uneven_batches", "false"},
           {"enable_backward_optimizer_op_deps", "true", early},
           {"priority", "false", early}}};
}

Trials images() { return {"resnet20", 64, 2, {{"sync_batch_norm", "true"}}}; }

}  // namespace

// What core/train/tune.cpp offers for these steps on two processors.
std::vector<Automatic> all_automatic() {
  return {{"resnet20",
           64,
           1,
           {"device_threads=1", "device_threads=4", "capture=false", "fuse_patterns=false",
            "enable_auto_fusion=false", "layout=nchw", "cudnn_exhaustive_search=true"}},
          {"transformer",
           2,
           1,
           {"device_threads=1", "device_threads=4", "capture=false", "fuse_patterns=false",
            "enable_auto_fusion=false", "cudnn_exhaustive_search=true"}},
          {"transformer", 2, 2, {"capture=false", "fuse_patterns=false", "enable_auto_fusion=false"}}};
}

std::vector<Trials> all_trials() { return {residual(), decoder(), shortest(), ranks(), images()}; }

}  // namespace bench
