// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import "strings"

// Operators that share a rule, by name.
const (
	sameShape = `Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Clip Cos Cosh CumSum Elu Erf Exp Floor
		HardSigmoid HardSwish Hardmax Identity LRN LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization
		Mish Neg Not Reciprocal Relu ReverseSequence Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign PRelu
		Sqrt Swish Tan Tanh ThresholdedRelu Trilu Gelu FastGelu QuickGelu BiasGelu FusedGelu Scatter ScatterElements
		ScatterND TensorScatter InstanceNormalization GroupNormalization GroupNorm RMSNormalization RotaryEmbedding
		SimplifiedLayerNormalization ImageScaler`
	broadcasting = `Add Sub Mul Div Pow Mod Max Min Sum Mean BitShift BitwiseAnd BitwiseOr BitwiseXor`
	comparing    = `And Or Xor Equal Less LessOrEqual Greater GreaterOrEqual`
	reducing     = `ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare`
	convolving   = `Conv ConvInteger QLinearConv FusedConv DeformConv`
	pooling      = `MaxPool AveragePool LpPool QLinearAveragePool`
	poolingAll   = `GlobalAveragePool GlobalMaxPool GlobalLpPool QLinearGlobalAveragePool`
	recurring    = `LSTM GRU RNN`
)

// rules returns the rule of every operator that has one; the engine handles If,
// Loop and Scan itself.
func rules() map[string]rule {
	table := map[string]rule{}
	for _, set := range []struct {
		names string
		rule  rule
	}{
		{sameShape, same}, {broadcasting, elementwise}, {comparing, compare}, {reducing, reduce},
		{convolving, conv}, {pooling, pool}, {poolingAll, poolAll}, {recurring, recurrent},
		{"ConvTranspose", convTranspose}, {"Gemm FusedGemm", gemm}, {"MatMul MatMulInteger", matMul},
		{"QLinearMatMul", qLinearMatMul}, {"FusedMatMul TransposeMatMul", fusedMatMul}, {"MatMulNBits", matMulNBits},
		{"Einsum", einsum}, {"Attention", attention}, {"MultiHeadAttention GroupQueryAttention", multiHead},
		{"BatchNormalization", batchNorm}, {"LayerNormalization", layerNorm},
		{"SkipLayerNormalization SkipSimplifiedLayerNormalization", skipLayerNorm},
		{"EmbedLayerNormalization", embedLayerNorm}, {"Dropout", dropout},
		{"Cast", cast}, {"CastLike", castLike}, {"QuantizeLinear DynamicQuantizeLinear", quantize},
		{"DequantizeLinear", dequantize}, {"IsNaN IsInf", isBool}, {"Where", where},
		{"Reshape", reshape}, {"Flatten", flatten}, {"Squeeze", squeeze}, {"Unsqueeze", unsqueeze},
		{"Transpose", transpose}, {"Slice DynamicSlice", slice}, {"Concat", concat}, {"Split", split},
		{"Expand", expand}, {"Tile", tile}, {"Pad", pad}, {"Resize Upsample", resize},
		{"DepthToSpace", depthToSpace}, {"SpaceToDepth", spaceToDepth}, {"CenterCropPad", centerCropPad},
		{"Gather", gather}, {"GatherElements", gatherElements}, {"GatherND", gatherND},
		{"OneHot", oneHot}, {"NonZero", nonZero}, {"Compress", compress}, {"TopK", topK}, {"ArgMax ArgMin", argMax},
		{"Shape", shapeOf}, {"Size", sizeOf}, {"Constant", constantNode}, {"ConstantOfShape", constantOfShape},
		{"Range", rangeNode}, {"EyeLike RandomNormalLike RandomUniformLike Bernoulli", like}, {"Multinomial", multinomial},
		{"RandomNormal RandomUniform", random}, {"MaxRoiPool", roiPool}, {"RoiAlign", roiAlign},
		{"NonMaxSuppression", nonMaxSuppression}, {"GridSample", gridSample}, {"MaxUnpool", maxUnpool},
		{"NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", loss}, {"Col2Im", col2im}, {"Det", det},
		{"AffineGrid", affineGrid}, {"DFT", dft}, {"STFT", stft}, {"HannWindow HammingWindow BlackmanWindow", window},
		{"SequenceEmpty SequenceConstruct", sequenceOf}, {"SequenceInsert", sequenceInsert}, {"SequenceErase", sequenceErase},
		{"SequenceAt", sequenceAt}, {"SequenceLength", sequenceLength}, {"SplitToSequence", splitToSequence},
		{"ConcatFromSequence", concatFromSequence},
	} {
		for _, name := range strings.Fields(set.names) {
			table[name] = set.rule
		}
	}
	return table
}

// same gives the first output the type and dimensions of the first input.
func same(c *call) { c.set(0, c.typ(0), clone(c.dims(0))) }

// like is same with an optional dtype.
func like(c *call) {
	same(c)
	if t := c.Int("dtype", 0); t > 0 && t < int64(typeCount) {
		c.set(0, DataType(t), clone(c.dims(0)))
	}
}

func elementwise(c *call) {
	t := Undefined
	for i := range c.in {
		t = orType(t, c.typ(i))
	}
	c.set(0, t, clone(c.broadcastAll(0)))
}

func compare(c *call) { c.set(0, Bool, clone(c.broadcastAll(0))) }

func where(c *call) { c.set(0, orType(c.typ(1), c.typ(2)), clone(c.broadcastAll(0))) }

func isBool(c *call) { c.set(0, Bool, clone(c.dims(0))) }

func cast(c *call) {
	t := c.Int("to", int64(Float))
	if t <= 0 || t >= int64(typeCount) {
		t = int64(Float)
	}
	c.set(0, DataType(t), clone(c.dims(0)))
}

func castLike(c *call) { c.set(0, c.typ(1), clone(c.dims(0))) }

// quantize returns the quantised values and, for the dynamic form, scale and zero
// point.
func quantize(c *call) {
	t := Uint8
	if c.Op == "QuantizeLinear" {
		t = orType(c.typ(2), Uint8)
		if to := c.Int("output_dtype", 0); to > 0 && to < int64(typeCount) {
			t = DataType(to)
		}
	}
	c.set(0, t, clone(c.dims(0)))
	c.set(1, Float, []int64{})
	c.set(2, Uint8, []int64{})
}

func dequantize(c *call) { c.set(0, orType(c.typ(1), Float), clone(c.dims(0))) }

// dropout may also return its mask.
func dropout(c *call) {
	same(c)
	c.set(1, Bool, clone(c.dims(0)))
}

// batchNorm also returns the new statistics in training mode.
func batchNorm(c *call) {
	same(c)
	for i := 1; i < len(c.out); i++ {
		c.set(i, c.typ(1), clone(c.dims(1)))
	}
}

// layerNorm may also return the mean and the inverse deviation.
func layerNorm(c *call) {
	same(c)
	dims := clone(c.dims(0))
	a, ok := axis(c.Int("axis", -1), len(dims))
	if !ok {
		return
	}
	for i := a; i < len(dims); i++ {
		dims[i] = 1
	}
	c.set(1, Float, dims)
	c.set(2, Float, clone(dims))
}

// skipLayerNorm is ONNX Runtime's Add and LayerNormalization in one; the
// fourth output is the sum.
func skipLayerNorm(c *call) {
	same(c)
	c.set(3, c.typ(0), clone(c.dims(0)))
}

// embedLayerNorm is ONNX Runtime's normalised sum of embeddings: ids of [batch,
// sequence], a table of [words, hidden].
func embedLayerNorm(c *call) {
	ids, table := c.dims(0), c.dims(2)
	if len(ids) == 2 && len(table) == 2 {
		c.set(0, c.typ(2), []int64{ids[0], ids[1], table[1]})
		c.set(1, Int32, []int64{ids[0]})
	}
}

func random(c *call) {
	t := c.Int("dtype", int64(Float))
	if t > 0 && t < int64(typeCount) {
		c.set(0, DataType(t), nonNil(clone(c.Ints("shape"))))
	}
}

func multinomial(c *call) {
	if in := c.dims(0); len(in) == 2 {
		c.set(0, DataType(c.Int("dtype", int64(Int32))), []int64{in[0], c.Int("sample_size", 1)})
	}
}

// loss is a scalar unless it is not reduced; the second output of the
// cross-entropy is the log-probability.
func loss(c *call) {
	dims := []int64{}
	if c.Text("reduction") == "none" {
		dims = clone(c.dims(1))
	}
	c.set(0, c.typ(0), dims)
	c.set(1, c.typ(0), clone(c.dims(0)))
}

// det reduces the last two dimensions.
func det(c *call) {
	if in := c.dims(0); len(in) >= 2 {
		c.set(0, c.typ(0), clone(in[:len(in)-2]))
	}
}
