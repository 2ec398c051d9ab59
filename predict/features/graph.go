// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// Kind is the kind of a unit of work.
type Kind string

// The kinds.
const (
	Conv      Kind = "conv"
	MatMul    Kind = "matmul"
	Attention Kind = "attention"
	Recurrent Kind = "recurrent"
	Norm      Kind = "norm"
	Pool      Kind = "pool"
	Softmax   Kind = "softmax"
	Curve     Kind = "activation"
	Elements  Kind = "elementwise"
	Reduce    Kind = "reduce"
	Lookup    Kind = "lookup"
	Move      Kind = "move"
	View      Kind = "view"
	Loss      Kind = "loss"
	Other     Kind = "other"
)

// kindNames lists the operators of each kind.
const (
	convNames    = "Conv ConvTranspose ConvInteger QLinearConv FusedConv DeformConv"
	matmulNames  = "Gemm MatMul MatMulInteger QLinearMatMul FusedMatMul FusedGemm TransposeMatMul MatMulNBits Einsum"
	attendNames  = "Attention MultiHeadAttention GroupQueryAttention"
	normNames    = "BatchNormalization LayerNormalization InstanceNormalization GroupNormalization GroupNorm LRN RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization EmbedLayerNormalization LpNormalization MeanVarianceNormalization"
	poolNames    = "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool MaxRoiPool RoiAlign MaxUnpool"
	softmaxNames = "Softmax LogSoftmax Hardmax"
	curveNames   = "Relu LeakyRelu Elu Selu Celu PRelu Sigmoid Tanh HardSigmoid HardSwish Softplus Softsign Gelu FastGelu QuickGelu BiasGelu Mish Clip ThresholdedRelu Erf Exp Log Sqrt Sin Cos Tan Swish Shrink"
	elementNames = "Add Sub Mul Div Pow Mod Max Min Sum Mean Abs Neg Reciprocal Sign Floor Ceil Round Where And Or Xor Not Equal Less LessOrEqual Greater GreaterOrEqual Cast CastLike Dropout IsNaN IsInf Trilu QuantizeLinear DequantizeLinear BitShift CumSum Bernoulli RotaryEmbedding RandomNormalLike RandomUniformLike RandomNormal RandomUniform"
	reduceNames  = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare ArgMax ArgMin TopK Det"
	lookupNames  = "Gather GatherElements GatherND ScatterElements ScatterND Scatter OneHot Compress NonZero NonMaxSuppression GridSample AffineGrid Unique"
	moveNames    = "Concat Pad Resize Upsample Tile DepthToSpace SpaceToDepth Col2Im ReverseSequence ConstantOfShape Range EyeLike CenterCropPad ConcatFromSequence"
	viewNames    = "Reshape Flatten Squeeze Unsqueeze Transpose Slice Split Expand Identity Shape Size Constant If Loop Scan SequenceEmpty SequenceConstruct SequenceInsert SequenceErase SequenceAt SequenceLength SplitToSequence"
	lossNames    = "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"
)

// kinds maps operators to kinds.
func kinds() map[string]Kind {
	table := map[string]Kind{}
	for _, set := range []struct {
		kind  Kind
		names string
	}{
		{Conv, convNames}, {MatMul, matmulNames}, {Attention, attendNames}, {Recurrent, "LSTM GRU RNN"}, {Norm, normNames},
		{Pool, poolNames}, {Softmax, softmaxNames}, {Curve, curveNames}, {Elements, elementNames},
		{Reduce, reduceNames}, {Lookup, lookupNames}, {Move, moveNames}, {View, viewNames}, {Loss, lossNames},
	} {
		for _, name := range strings.Fields(set.names) {
			table[name] = set.kind
		}
	}
	return table
}

// unit is one operation of the framework.
type unit struct {
	kind   Kind
	name   string // operator, or the name of the pattern
	node   *onnx.Node
	in     []int // values read, optional ones left out dropped
	slots  []int // values read by position, -1 where left out
	out    []int
	repeat int64
	copies bool  // a view that must copy
	bias   bool  // a product with a bias added
	scores int64 // elements of an attention's score matrix

	macs  float64 // set by cost
	steps int64   // of a recurrent unit
}

// graph is a model as units of work, with the facts about every value that
// differentiation needs.
type graph struct {
	s       *onnx.Shapes
	recipe  Recipe
	kinds   map[string]Kind
	keep    map[string]string // see keepTable
	uses    [][]int           // value -> operators that read it, in order
	static  []bool            // value depends on no input
	grad    []bool            // value needs a gradient
	param   []bool
	params  []int
	buffers []int
	tables  []int // stored matrices of which rows are looked up
	root    []int // value -> value whose memory it shares
	fused   []bool
	units   []unit
	readers []int // value -> units that read it
	strides []stride
}

func newGraph(s *onnx.Shapes) *graph {
	n := len(s.Values)
	g := &graph{s: s, kinds: kinds(), keep: keepTable(), uses: make([][]int, n), static: make([]bool, n), grad: make([]bool, n),
		param: make([]bool, n), root: make([]int, n), fused: make([]bool, len(s.Ops))}
	for i := range s.Ops {
		for _, id := range s.Ops[i].In {
			if id >= 0 && (len(g.uses[id]) == 0 || g.uses[id][len(g.uses[id])-1] != i) {
				g.uses[id] = append(g.uses[id], i)
			}
		}
	}
	g.findStatic()
	g.findTables()
	g.findParams()
	g.findLayouts()
	g.fuse()
	g.findGrads()
	g.findRoots()
	g.findStrides()
	return g
}

// findStatic marks the values that no input reaches.
func (g *graph) findStatic() {
	for id, v := range g.s.Values {
		g.static[id] = v.Source == onnx.Stored
	}
	for i := range g.s.Ops {
		op := &g.s.Ops[i]
		all := true
		for _, id := range op.In {
			all = all && (id < 0 || g.static[id] || g.s.Values[id].Constant())
		}
		for _, id := range op.Out {
			if id >= 0 {
				g.static[id] = all && !strings.HasPrefix(op.Node.Op, "Random")
			}
		}
	}
}

// weightSlots returns the inputs of an operator at which even small tensors are
// parameters; -1: all.
func weightSlots(op string) []int {
	switch op {
	case "Conv", "ConvTranspose", "Gemm", "PRelu", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
		"RMSNormalization", "BatchNormalization", "FusedConv", "DeformConv":
		return []int{1, 2}
	case "LSTM", "GRU", "RNN":
		return []int{1, 2, 3, 7}
	case "MatMul", "Einsum", "FusedMatMul":
		return []int{0, 1}
	case "Gather", "GatherND", "GatherElements":
		return []int{0}
	}
	return nil
}

// plainSlots are operators whose larger constant inputs are parameters: positions,
// class tokens, scales and shifts of layers, and those that a model stores in another
// form than it uses, such as the logarithm of a decay.
var plainSlots = strings.Fields("Add Mul Sub Concat Expand Transpose Reshape Unsqueeze Squeeze Slice Identity Cast Tile ReduceMean ReduceSum Div Resize Split " +
	"Exp Neg Softplus Sigmoid Tanh Softmax")

// findParams distinguishes parameters from other constants. A parameter is a tensor
// of floats that is stored (or made by ConstantOfShape from a stored shape, as
// weight-free files write weights, or an Identity of a stored tensor, as exporters
// write equal parameters) and is read where a layer has its weights. The statistics
// of a BatchNormalization are buffers.
func (g *graph) findParams() {
	for id, v := range g.s.Values {
		stored := v.Source == onnx.Stored
		made := false
		if v.Producer >= 0 {
			op := &g.s.Ops[v.Producer]
			fromStored := len(op.In) == 1 && op.In[0] >= 0 && g.s.Values[op.In[0]].Source == onnx.Stored
			made = op.Node.Op == "Constant" || (op.Node.Op == "ConstantOfShape" || op.Node.Op == "Identity") && fromStored
		}
		if !v.Type.Differentiable() || !stored && !made || !v.Known() {
			continue
		}
		literal := made && g.s.Ops[v.Producer].Node.Op == "Constant"
		switch weight, buffer := g.standsAsWeight(id, literal); {
		case weight && g.turned(v):
			g.param[id] = true
		case weight:
			g.param[id] = true
			g.params = append(g.params, id)
		case buffer:
			g.buffers = append(g.buffers, id)
		}
	}
}

// turned reports whether a stored matrix is another one transposed: an exporter
// writes weights that layers share, such as those of an embedding and of the last
// layer, as two constants if it transposed one of them. They are one parameter: the
// one that is looked up.
func (g *graph) turned(v *onnx.Value) bool {
	if v.Digest == 0 || len(v.Dims) != 2 {
		return false
	}
	for _, id := range g.tables {
		t := g.s.Values[id]
		if t != v && t.Digest == v.Digest && len(t.Dims) == 2 && t.Dims[0] == v.Dims[1] && t.Dims[1] == v.Dims[0] {
			return true
		}
	}
	return false
}

// findTables lists the stored matrices that a Gather reads rows of.
func (g *graph) findTables() {
	for i := range g.s.Ops {
		op := &g.s.Ops[i]
		if op.Node.Op != "Gather" || len(op.In) == 0 || op.In[0] < 0 {
			continue
		}
		if id := op.In[0]; g.s.Values[id].Digest != 0 && !slices.Contains(g.tables, id) && len(g.tables) < 64 {
			g.tables = append(g.tables, id)
		}
	}
}

// findLayouts treats values that are computed from parameters and read only by
// recurrent cells as the parameters themselves: exporters reorder and join the gates
// there, the framework does not.
func (g *graph) findLayouts() {
	layout := make([]bool, len(g.s.Ops))
	for i := len(g.s.Ops) - 1; i >= 0; i-- {
		op := &g.s.Ops[i]
		layout[i] = len(op.Out) > 0 && g.fromParams(op)
		for _, id := range op.Out {
			if id < 0 {
				continue
			}
			layout[i] = layout[i] && g.static[id] && len(g.uses[id]) > 0
			for _, use := range g.uses[id] {
				layout[i] = layout[i] && (layout[use] || g.kinds[g.s.Ops[use].Node.Op] == Recurrent)
			}
		}
	}
	for i, is := range layout {
		for _, id := range g.s.Ops[i].Out {
			if is && id >= 0 && g.s.Values[id].Type.Differentiable() {
				g.param[id] = true
			}
		}
	}
}

// ofModule reports whether a name is that of a module's tensor, such as
// "stages.0.act.scale": exporters name other constants by numbers or by operators.
func ofModule(name string) bool {
	return strings.Contains(name, ".") && !strings.ContainsAny(name, "/:")
}

// standsAsWeight checks where a constant is read.
func (g *graph) standsAsWeight(id int, literal bool) (weight, buffer bool) {
	several := g.s.Values[id].Elements() > 1 || ofModule(g.s.Values[id].Name)
	for _, i := range g.uses[id] {
		op := &g.s.Ops[i]
		for at, in := range op.In {
			if in != id {
				continue
			}
			switch {
			case op.Node.Op == "BatchNormalization" && at >= 3:
				buffer = true
			case op.Node.Op == "Identity" && len(op.Out) == 1 && op.Out[0] >= 0 && len(g.uses[op.Out[0]]) == 0:
				// It was the bias of a convolution before unfold.
			case slices.Contains(weightSlots(op.Node.Op), at):
				weight = true
			case op.Node.Op == "Div" && at == 1:
			case several && !literal && slices.Contains(plainSlots, op.Node.Op) && (op.Node.Op != "Resize" || at == 0):
				weight = true
			}
		}
	}
	return weight, buffer
}

// idle reports whether an operation costs nothing at run time: shape
// arithmetic and constants.
func (g *graph) idle(op *onnx.Op) bool {
	if op.Folded || op.Node.Op == "Constant" || op.Node.Op == "Shape" || op.Node.Op == "Size" {
		return true
	}
	for _, id := range op.Out {
		if id >= 0 && g.param[id] {
			return true
		}
	}
	for _, id := range op.In {
		if id >= 0 && (!g.static[id] || g.param[id]) {
			return false
		}
	}
	for _, id := range op.Out {
		if id >= 0 && !g.static[id] {
			return false
		}
	}
	return !g.fromParams(op)
}

// noDropout reports whether an operation is a dropout without effect.
func (g *graph) noDropout(op *onnx.Op) bool {
	if op.Node.Op != "Dropout" {
		return false
	}
	if ratio := op.Node.Attr("ratio"); ratio != nil {
		return ratio.F == 0
	}
	if len(op.In) < 2 || op.In[1] < 0 {
		return false
	}
	n, known := g.s.Values[op.In[1]].Number()
	return known && n == 0
}

// fromParams reports whether a static operation computes from parameters, as
// a normalisation of weights does.
func (g *graph) fromParams(op *onnx.Op) bool {
	for depth := 0; depth < 8 && op != nil; depth++ {
		var next *onnx.Op
		for _, id := range op.In {
			if id < 0 {
				continue
			}
			if g.param[id] {
				return true
			}
			if p := g.s.Values[id].Producer; p >= 0 && next == nil {
				next = &g.s.Ops[p]
			}
		}
		op = next
	}
	return false
}

// findGrads marks the values through which gradients flow.
func (g *graph) findGrads() {
	copy(g.grad, g.param)
	g.readers = make([]int, len(g.grad))
	for i := range g.units {
		u := &g.units[i]
		needs := false
		for _, id := range u.in {
			g.readers[id]++
			needs = needs || g.grad[id]
		}
		for _, id := range u.out {
			g.grad[id] = needs && g.s.Values[id].Type.Differentiable() && u.name != "ArgMax" && u.name != "ArgMin"
		}
	}
}

// findRoots resolves which values share memory.
func (g *graph) findRoots() {
	for id := range g.root {
		g.root[id] = id
	}
	for i := range g.units {
		u := &g.units[i]
		if u.kind == View && !u.copies && len(u.in) > 0 {
			for _, id := range u.out {
				g.root[id] = g.root[u.in[0]]
			}
		}
	}
}

// shaped reports whether all results of a unit have known shapes.
func (g *graph) shaped(u *unit) bool {
	for _, id := range u.out {
		if !g.s.Values[id].Known() {
			return false
		}
	}
	return true
}
