"""CIFAR-10 with ResNet-32."""
